#pragma once

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace zerolab::test {

/// What a terminal shows: just enough of one for the live view. Nothing scrolls away. Characters
/// that are one column wide; codes that it does not know throw.
class Screen {
 public:
  explicit Screen(int columns) : columns_(columns) {}

  void write(std::string_view text) {
    for (size_t i = 0; i < text.size();) {
      if (text[i] == '\x1b') {
        const size_t end = text.find_first_of("ABCDHJKhlm", i + 1);
        control(text.substr(i + 2, end - i - 2), text.at(end));
        i = end + 1;
      } else if (text[i] == '\n') {
        ++row_;
        column_ = 0;  // as a terminal's driver makes "\r\n" of it
        ++i;
      } else if (text[i] == '\r') {
        column_ = 0;
        ++i;
      } else {
        const size_t begin = i++;
        while (i < text.size() && (text[i] & 0xC0) == 0x80) {
          ++i;
        }
        put(text.substr(begin, i - begin));
      }
    }
  }

  /// Without blanks at their ends.
  std::vector<std::string> lines() const {
    std::vector<std::string> lines;
    for (const std::vector<std::string>& cells : rows_) {
      std::string line;
      for (const std::string& cell : cells) {
        line += cell.empty() ? " " : cell;
      }
      line.resize(line.find_last_not_of(' ') + 1);
      lines.push_back(line);
    }
    return lines;
  }

  bool cursor_shown() const { return cursor_shown_; }
  bool wraps() const { return wraps_; }
  bool colored() const { return colored_; }
  int row() const { return row_; }
  int column() const { return column_; }
  /// How often colours were changed.
  int color_codes() const { return color_codes_; }

 private:
  void control(std::string_view parameters, char code) {
    const int number = std::max(1, std::atoi(std::string(parameters).c_str()));
    if (code == 'A') {
      row_ = std::max(0, row_ - number);
    } else if (code == 'K') {
      at(row_).resize(column_);
    } else if (code == 'J') {
      at(row_).resize(column_);
      rows_.resize(row_ + 1);
    } else if (code == 'm') {
      colored_ = parameters != "0";
      ++color_codes_;
    } else if (parameters == "?25") {
      cursor_shown_ = code == 'h';
    } else if (parameters == "?7") {
      wraps_ = code == 'h';
    } else {
      throw std::string("unknown code ") + code;
    }
  }

  std::vector<std::string>& at(int row) {
    rows_.resize(std::max<size_t>(rows_.size(), row + 1));
    return rows_[row];
  }

  void put(std::string_view character) {
    if (column_ == columns_) {
      row_ += wraps_ ? 1 : 0;
      column_ = wraps_ ? 0 : columns_ - 1;
    }
    std::vector<std::string>& cells = at(row_);
    cells.resize(std::max<size_t>(cells.size(), column_ + 1));
    cells[column_++] = character;
  }

  const int columns_;
  std::vector<std::vector<std::string>> rows_;
  int row_ = 0;
  int column_ = 0;
  int color_codes_ = 0;
  bool cursor_shown_ = true;
  bool wraps_ = true;
  bool colored_ = false;
};

}  // namespace zerolab::test
