#include "apps/train_gpt/report/live_page.h"

#include "apps/train_gpt/report/losses.h"
#include "apps/train_gpt/report/report_data.h"
#include "apps/train_gpt/report/report_page.h"

namespace zerolab::app {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMostSteps = 20'000;
constexpr std::chrono::milliseconds kInterval(900);  ///< a browser asks once a second
/// A page that is opened late in a long run catches up, at a few hundred MB a second.
constexpr std::chrono::milliseconds kLongestRead(500);

}  // namespace

LivePage::LivePage(const ListenAddress& address, const std::filesystem::path& log)
    : log_(log), server_(address, report_page({{"live", "training"}}), [this](bool ended) {
        return event(ended);
      }) {}

void LivePage::start() {
  reader_.emplace(log_);
  server_.start();
}

std::shared_ptr<const std::string> LivePage::event(bool ended) {
  const std::lock_guard lock(mutex_);
  const Clock::time_point now = Clock::now();
  if (ended == ended_ && event_ != nullptr && now - made_ < kInterval) {
    return event_;
  }
  made_ = now;
  bool changed = ended != ended_ || event_ == nullptr;
  while (Clock::now() - now < kLongestRead && reader_->read_on()) {
    changed = true;
    drop_some(reader_->run(), kMostSteps);
  }
  if (changed) {
    ended_ = ended;
    nlohmann::json data = report_data({reader_->run()});
    data["live"] = ended ? "ended" : "training";
    event_ = std::make_shared<const std::string>(
        "data: " + data.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n\n");
  }
  return event_;
}

void drop_some(LoggedRun& run, size_t most) {
  if (const size_t before = run.steps.size(); before > most) {
    run.steps = thinned_out(run.steps, most / 2);
    run.dropped_steps += static_cast<int64_t>(before - run.steps.size());
  }
  if (run.evaluations.size() > most) {
    run.evaluations = thinned_out(run.evaluations, most / 2);
  }
}

}  // namespace zerolab::app
