#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <regex>
#include <sstream>

#include "tests/cli/program.h"

namespace zerolab::test {
namespace {

namespace fs = std::filesystem;

using Lines = std::vector<std::string>;

const std::string kDocs = SOURCE_FOLDER "/docs/";
const std::string kCut = "…";    ///< stands for what a quote leaves out
const std::string kAbout = "≈";  ///< before a number that depends on the processor's kernels

std::string trimmed(const std::string& line) {
  const size_t begin = line.find_first_not_of(' ');
  return begin == std::string::npos ? ""
                                    : line.substr(begin, line.find_last_not_of(' ') + 1 - begin);
}

Lines lines_of(const std::string& text) {
  Lines lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    lines.push_back(trimmed(line));
  }
  return lines;
}

/// The links of a line of Markdown, pictures too.
Lines links_of(const std::string& line) {
  static const std::regex link(R"(\]\(([^)]+)\))");
  Lines links;
  for (std::sregex_iterator found(line.begin(), line.end(), link), end; found != end; ++found) {
    links.push_back((*found)[1]);
  }
  return links;
}

/// A fenced block.
struct Block {
  std::string language;  ///< empty: what a program has printed
  std::string source;    ///< the C++ file that was linked last before it
  Lines lines;
};

struct Tour {
  Lines links;
  std::vector<Block> blocks;
};

Tour read_tour(const std::string& page = "tour.md") {
  Tour tour;
  std::string source;
  bool inside = false;
  for (const std::string& line : lines_of(read_file(kDocs + page))) {
    if (line.starts_with("```")) {
      inside = !inside;
      if (inside) {
        tour.blocks.push_back({.language = line.substr(3), .source = source, .lines = {}});
      }
    } else if (inside) {
      tour.blocks.back().lines.push_back(line);
    } else {
      for (const std::string& link : links_of(line)) {
        tour.links.push_back(link);
        source = link.ends_with(".cpp") || link.ends_with(".h") ? link : source;
      }
    }
  }
  return tour;
}

/// The words of a command line of the tour: quotes as in a shell; a comment begins with " #".
Lines words_of(const std::string& line) {
  Lines words = {""};
  bool quoted = false;
  for (const char c : line.substr(0, line.find(" #"))) {
    if (c == '\'') {
      quoted = !quoted;
    } else if (c == ' ' && !quoted) {
      words.emplace_back();
    } else {
      words.back() += c;
    }
  }
  std::erase(words, "");
  return words;
}

/// Whether `printed` begins with the words of `shown`; a number after kAbout within a tenth, or
/// by 1.
bool has_words(const std::string& printed, const std::string& shown) {
  std::istringstream got(printed);
  std::istringstream expected(shown);
  std::string word;
  for (std::string expected_word; expected >> expected_word;) {
    if (!(got >> word)) {
      return false;
    }
    if (!expected_word.starts_with(kAbout)) {
      if (word != expected_word) {
        return false;
      }
      continue;
    }
    const double about = std::stod(expected_word.substr(kAbout.size()));
    const double number = std::strtod(word.c_str(), nullptr);
    const bool whole = expected_word.find('.') == std::string::npos;
    if (std::abs(number - about) > std::max(0.1 * about, whole ? 1.0 : 0.0)) {
      return false;
    }
  }
  return true;
}

/// A plan is made, and prints what the tour shows.
void check_plan(const data::TempDir& folder, const Lines& words, const Block& shown) {
  const Ended ended = Program(folder, words).wait();
  ASSERT_EQ(ended.status, 0) << ended.err;
  ASSERT_EQ(shown.language, "");
  const Lines printed = lines_of(ended.out);
  for (const std::string& line : shown.lines) {
    const std::string begin = trimmed(line.substr(0, line.find(kCut)));
    const bool about = begin.find(kAbout) != std::string::npos;
    EXPECT_TRUE(std::ranges::any_of(printed,
                                    [&](const std::string& one) {
                                      return about ? has_words(one, begin) : one.starts_with(begin);
                                    }))
        << line << "\n"
        << ended.out;
  }
}

/// A training is only begun, with a folder that cannot be made: what comes before, keys, data and
/// layout, is right.
void check_training(const data::TempDir& folder, Lines words) {
  words.insert(words.end(), {"--set", "run.out_dir=/dev/null/nowhere"});
  const Ended ended = Program(folder, words).wait();
  EXPECT_EQ(ended.status, 1);
  EXPECT_NE(ended.err.find("its folder cannot be made"), std::string::npos) << ended.err;
}

TEST(Tour, EveryLinkLeadsToAFile) {
  const Tour tour = read_tour();
  const std::string page = read_file(kDocs + "tour.md");
  int pictures = 0;
  for (const std::string& link : tour.links) {
    if (link.starts_with("#")) {  // a chapter: "#1-a-plain-training-loop"
      const std::string chapter = "\n## " + link.substr(1, link.find('-') - 1) + ". ";
      EXPECT_NE(page.find(chapter), std::string::npos) << link;
      continue;
    }
    EXPECT_TRUE(fs::exists(kDocs + link)) << link;
    if (link.ends_with(".png")) {
      ++pictures;
      EXPECT_LE(fs::file_size(kDocs + link), 60'000) << link;
    }
  }
  EXPECT_GE(pictures, 8);
}

/// The C++ blocks of a page stand in the files that it links last before them; returns how many.
int check_quotes(const std::string& page) {
  int quotes = 0;
  for (const Block& block : read_tour(page).blocks) {
    if (block.language != "cpp") {
      continue;
    }
    ++quotes;
    const Lines source = lines_of(read_file(kDocs + block.source));
    auto from = source.begin();
    for (auto line = block.lines.begin(); line != block.lines.end();) {
      const auto cut = std::find(line, block.lines.end(), kCut);
      const auto found = std::search(from, source.end(), line, cut);
      if (found == source.end()) {
        ADD_FAILURE() << block.source << " does not hold: " << *line;
        break;
      }
      from = found + (cut - line);
      line = cut == block.lines.end() ? cut : cut + 1;
    }
  }
  return quotes;
}

TEST(Tour, CodeIsQuotedFromTheSources) {
  EXPECT_GE(check_quotes("tour.md"), 20);
  EXPECT_EQ(check_quotes("own-model.md"), 9);
}

TEST(Tour, CommandsRun) {
  const data::TempDir folder;
  fs::create_directory_symlink(SOURCE_FOLDER "/configs", folder.path("configs"));
  std::map<std::string, int> commands;
  const Tour tour = read_tour();
  for (size_t i = 0; i < tour.blocks.size(); ++i) {
    if (tour.blocks[i].language != "sh") {
      continue;
    }
    for (const std::string& line : tour.blocks[i].lines) {
      SCOPED_TRACE(line);
      Lines words = words_of(line);
      const std::string program = words.at(0);
      words.erase(words.begin());
      if (program == "build/bin/train-gpt") {
        ++commands[words.at(0)];
        if (words.at(0) == "plan") {
          check_plan(folder, words, tour.blocks.at(i + 1));
        } else if (words.at(0) != "report") {  // of runs that were not made
          check_training(folder, words);
        }
      } else if (program.starts_with("build/bin/test_")) {
        const std::string name = program.substr(15);
        EXPECT_TRUE(fs::exists(SOURCE_FOLDER "/tests/" + name) ||
                    fs::exists(SOURCE_FOLDER "/tests/spine/" + name));
      } else {
        EXPECT_TRUE(program.starts_with("scripts/") && fs::exists(SOURCE_FOLDER "/" + program));
      }
    }
  }
  EXPECT_GE(commands["plan"], 5);
  EXPECT_GE(commands["train"] + commands["compare"], 8);
}

}  // namespace
}  // namespace zerolab::test
