#include "tests/cli/program.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <chrono>
#include <fstream>
#include <iterator>
#include <memory>
#include <thread>

extern char** environ;

namespace zerolab::test {
namespace {

constexpr std::chrono::milliseconds kPoll(2);

constexpr const char* kConfig = R"([run]
name = "small"
steps = 6
eval_every = 3

[launch]
ranks = 2
device = "cpu"
backend = ")" BACKEND R"("

[model]
n_layer = 2
n_head = 2
n_embd = 16
block_size = 16

[data]
path = "text.txt"
tokenizer = "char"

[train]
micro_batch_size = 2
gradient_accumulation_steps = 1
)";

/// Sentences in a random order: something to learn.
std::string text() {
  constexpr const char* kWords[] = {"the ", "cat ", "sat ", "on ", "a ", "mat, ", "and ", "ran.\n"};
  std::string text;
  uint32_t state = 1;
  for (int i = 0; i < 3000; ++i) {
    state = state * 1664525 + 1013904223;
    text += kWords[state >> 29];
  }
  return text;
}

}  // namespace

Program::Program(const data::TempDir& folder, const std::vector<std::string>& arguments,
                 const std::string& terminal, const std::string& input)
    : out_(folder.path("stdout")), err_(folder.path("stderr")) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC;
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, input.c_str(), O_RDONLY, 0);
  const std::string& out = terminal.empty() ? out_ : terminal;
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out.c_str(), kFlags | O_NOCTTY, 0666);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err_.c_str(), kFlags, 0666);
  posix_spawn_file_actions_addchdir_np(&actions, folder.path("").c_str());
  std::vector<char*> argv = {const_cast<char*>(TRAIN_GPT)};
  for (const std::string& argument : arguments) {
    argv.push_back(const_cast<char*>(argument.c_str()));
  }
  argv.push_back(nullptr);
  EXPECT_EQ(posix_spawn(&process_, TRAIN_GPT, &actions, nullptr, argv.data(), environ), 0);
  posix_spawn_file_actions_destroy(&actions);
}

Program::~Program() {
  if (!ended_) {
    wait(0.0);
  }
}

void Program::send(int signal) const { kill(process_, signal); }

bool Program::is_running() {
  if (!ended_) {
    ended_ = waitpid(process_, &status_, WNOHANG) == process_;
  }
  return !ended_;
}

Ended Program::wait(double seconds) {
  const auto begin = std::chrono::steady_clock::now();
  while (is_running()) {
    if (std::chrono::steady_clock::now() - begin >= std::chrono::duration<double>(seconds)) {
      send(SIGKILL);
    }
    std::this_thread::sleep_for(kPoll);
  }
  return {.status = WIFEXITED(status_) ? WEXITSTATUS(status_) : -1,
          .out = read_file(out_),
          .err = read_file(err_)};
}

SmallRun::SmallRun() {
  folder_.write("small.toml", kConfig);
  folder_.write("text.txt", text());
  folder_.write("empty.txt", "");
}

std::unique_ptr<Program> SmallRun::start(const std::string& command,
                                         const std::vector<std::string>& settings,
                                         const std::vector<std::string>& options,
                                         const std::string& terminal) const {
  std::vector<std::string> arguments = {command, "small.toml"};
  arguments.insert(arguments.end(), options.begin(), options.end());
  for (const std::string& setting : settings) {
    arguments.insert(arguments.end(), {"--set", setting});
  }
  return std::make_unique<Program>(folder_, arguments, terminal);
}

Ended SmallRun::run(const std::string& command, const std::vector<std::string>& settings,
                    const std::vector<std::string>& options) const {
  return start(command, settings, options)->wait();
}

std::vector<nlohmann::json> SmallRun::log(const std::string& path) const {
  std::ifstream file(folder_.path(path));
  std::vector<nlohmann::json> records;
  for (std::string line; std::getline(file, line);) {
    records.push_back(nlohmann::json::parse(line));
  }
  return records;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string train_gpt() { return TRAIN_GPT; }

std::vector<nlohmann::json> of_event(const std::vector<nlohmann::json>& log,
                                     const std::string& event) {
  std::vector<nlohmann::json> found;
  for (const nlohmann::json& record : log) {
    if (record.at("event") == event) {
      found.push_back(record);
    }
  }
  return found;
}

}  // namespace zerolab::test
