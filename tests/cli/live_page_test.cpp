#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

#include "tests/cli/page_probe.h"
#include "tests/cli/program.h"
#include "tests/train_gpt/report/raw_client.h"

namespace zerolab::test {
namespace {

using nlohmann::json;

/// The address that the program has printed; "" if it ends without.
std::string address_of(const SmallRun& run, Program& program) {
  constexpr std::string_view kBefore = "dashboard: ";
  while (program.is_running()) {
    const std::string out = read_file(run.folder().path("stdout"));
    const size_t begin = out.find(kBefore);
    const size_t end = out.find('\n', begin);
    if (begin != std::string::npos && end != std::string::npos) {
      return out.substr(begin + kBefore.size(), end - begin - kBefore.size());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return "";
}

int port_of(const std::string& address) {
  return std::stoi(address.substr(address.rfind(':') + 1));
}

/// The JSON of the last event in what a browser was sent.
json last_event(const std::string& sent) {
  const size_t begin = sent.rfind("data: ") + 6;
  return json::parse(sent.substr(begin, sent.find('\n', begin) - begin), nullptr, false);
}

TEST(LivePage, ShowsTheLogsNumbersInABrowserUpToTheEnd) {
  const SmallRun run;
  const auto program =
      run.start("train", {"log.dashboard=0", "run.steps=100000000", "run.eval_every=0",
                          "zero.stage=2", "run.log_every=1000000"});
  const std::string address = address_of(run, *program);
  ASSERT_TRUE(address.starts_with("http://127.0.0.1:")) << address;
  PageProbe probe(address + "/");
  const json found = probe.next();
  const json changed = probe.next();
  program->send(SIGINT);
  const json at_end = probe.next();
  const Ended ended = program->wait(20.0);
  EXPECT_EQ(ended.status, 0) << ended.err;
  ASSERT_TRUE(found.is_object() && changed.is_object() && at_end.is_object());

  EXPECT_EQ(found.at("console"), json::array());
  EXPECT_EQ(at_end.at("console"), json::array());
  EXPECT_EQ(found.at("title"), "small – zerolab report");
  EXPECT_EQ(found.at("state"), "Live: the run is going on.");
  EXPECT_EQ(at_end.at("state"), "The run has ended.");
  EXPECT_EQ(changed.at("kept"), (json{{"opened", 1}, {"top", 700}}));
  EXPECT_EQ(found.at("views").size(), 4);
  for (const auto& [view, look] : found.at("views").items()) {
    EXPECT_LE(look.at("overflow"), 0) << view;
    EXPECT_EQ(look.at("canvases").size(), 7) << view;
    for (const json& canvas : look.at("canvases")) {
      EXPECT_GT(canvas.at("pixels"), 3000) << view << " " << canvas;
      EXPECT_GT(canvas.at("colors"), 8) << view << " " << canvas;
    }
  }

  const std::vector<json> log = run.log();
  const std::vector<json> steps = of_event(log, "step");
  const json& summary = log.back();
  size_t before = 0;
  for (const json* look : {&found, &changed, &at_end}) {
    const auto loss = rows_of(*look, "loss", 0).at(0);
    const size_t count = loss.at("steps");
    EXPECT_GT(count, before);
    before = count;
    ASSERT_LE(count, steps.size());
    EXPECT_EQ(loss.at("first"), steps[0].at("loss"));
    EXPECT_EQ(loss.at("last"), steps[count - 1].at("loss"));
    const auto lowest =
        std::min_element(steps.begin(), steps.begin() + static_cast<std::ptrdiff_t>(count),
                         [](const json& a, const json& b) { return a.at("loss") < b.at("loss"); });
    EXPECT_EQ(loss.at("lowest"), lowest->at("loss"));
    const json& totals = look == &at_end ? summary : steps[count - 1];
    const auto memory = rows_of(*look, "memory", 0);
    ASSERT_EQ(memory.size(), 2);
    for (int rank = 0; rank < 2; ++rank) {
      EXPECT_EQ(memory[rank].at("total"), totals.at("memory").at(rank).at("total").at("peak"));
    }
    EXPECT_EQ(rows_of(*look, "time", 0).at(0).at("forward"), totals.at("ms").at("forward"));
  }
  EXPECT_EQ(before, steps.size());
  EXPECT_EQ(rows_of(at_end, "communication", 0).at(0).at("sent"),
            summary.at("bytes_sent_per_step"));
}

TEST(LivePage, HostileBrowsersChangeNothing) {
  const std::vector<std::string> settings = {"run.steps=4000", "run.eval_every=0",
                                             "run.log_every=1000000"};
  const SmallRun undisturbed;
  ASSERT_EQ(undisturbed.run("train", settings).status, 0);

  const SmallRun run;
  std::vector<std::string> with_page = settings;
  with_page.push_back("log.dashboard=127.0.0.1:0");
  const auto program = run.start("train", with_page);
  const int port = port_of(address_of(run, *program));
  std::vector<std::unique_ptr<RawClient>> stalled;
  for (const std::string& begin :
       {request("GET", "/events"), request("GET", "/"), std::string("GET / HTT"), std::string()}) {
    stalled.push_back(std::make_unique<RawClient>(port));
    stalled.back()->send(begin);
  }
  const std::string start = "GET / HTTP/1.1\r\nHost: localhost\r\n";
  while (program->is_running()) {
    answer(port, start + "A: " + std::string(100'000, 'x') + "\r\n\r\n");
    answer(port, request("POST", "/events"));
    answer(port, request("GET", "/../../etc/passwd"));
    answer(port, "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n");
    std::vector<std::unique_ptr<RawClient>> crowd;
    for (int i = 0; i < 200; ++i) {
      crowd.push_back(std::make_unique<RawClient>(port));
      crowd.back()->send(request("GET", i % 2 == 0 ? "/" : "/events"));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  const Ended ended = program->wait(20.0);
  EXPECT_EQ(ended.status, 0);
  EXPECT_EQ(ended.err, "");
  const std::vector<json> steps = of_event(run.log(), "step");
  const std::vector<json> expected = of_event(undisturbed.log(), "step");
  ASSERT_EQ(steps.size(), expected.size());
  for (size_t i = 0; i < steps.size(); ++i) {
    EXPECT_EQ(steps[i].at("loss"), expected[i].at("loss")) << i;
  }
}

TEST(LivePage, EndsWithTheLastStateOfARunThatFails) {
  const SmallRun run;
  const auto program =
      run.start("train", {"log.dashboard=0", "optimizer.name=sgd", "optimizer.lr=1e30",
                          "optimizer.gradient_clipping=0", "train.max_skipped_steps=0",
                          "comm.latency_us=100000"});  // long enough for a browser to come
  const RawClient browser(port_of(address_of(run, *program)));
  browser.send(request("GET", "/events"));
  const json seen = last_event(browser.read_all());
  EXPECT_EQ(program->wait(20.0).status, 1);
  EXPECT_EQ(seen.at("live"), "ended");
  const std::vector<json> steps = of_event(run.log(), "step");
  EXPECT_EQ(seen.at("runs").at(0).at("loss").at("steps"), steps.size());
  EXPECT_EQ(seen.at("runs").at(0).at("loss").at("last").at(0), steps.back().at("step"));
}

TEST(LivePage, APortThatIsTakenIsAnErrorBeforeAnythingIsWritten) {
  const SmallRun run;
  const auto program = run.start("train", {"log.dashboard=0", "run.steps=100000000"});
  const std::string port = std::to_string(port_of(address_of(run, *program)));
  const SmallRun other;
  const Ended ended = other.run("train", {"log.dashboard=" + port});
  EXPECT_EQ(ended.status, 2);
  EXPECT_TRUE(ended.err.starts_with("error: [dashboard] cannot listen at http://127.0.0.1:" + port +
                                    ": another program uses this port"))
      << ended.err;
  EXPECT_FALSE(std::filesystem::exists(other.folder().path("runs")));
  program->send(SIGINT);
  EXPECT_EQ(program->wait(20.0).status, 0);
}

TEST(LivePage, AComparisonHasNone) {
  const SmallRun run;
  const Ended ended = run.run("compare", {"log.dashboard=0"});
  EXPECT_EQ(ended.status, 2);
  EXPECT_NE(ended.err.find("--set log.dashboard: log.dashboard shows one run"), std::string::npos)
      << ended.err;
  EXPECT_FALSE(std::filesystem::exists(run.folder().path("runs")));
}

}  // namespace
}  // namespace zerolab::test
