#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <stdexcept>
#include <vector>

#include "framework/core/cpu_stream.h"
#include "framework/core/error.h"

namespace zerolab {
namespace {

TEST(WorkerStream, KeepsItsOrder) {
  WorkerStream stream;
  std::vector<int> order;
  for (int i = 0; i < 100; ++i) {
    stream.launch([&order, i] { order.push_back(i); });
  }
  stream.synchronize();
  ASSERT_EQ(order.size(), 100U);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(order[i], i);
  }
}

TEST(WorkerStream, WaitsForEventsOfAnother) {
  WorkerStream first;
  WorkerStream second;
  std::atomic<bool> may_run = false;
  int value = 0;
  first.launch([&] {
    while (!may_run) {
    }
    value = 1;
  });
  second.wait(first.record());
  second.launch([&] { value *= 10; });
  const Event end = second.record();
  EXPECT_FALSE(end.is_complete());
  may_run = true;
  end.synchronize();
  EXPECT_EQ(value, 10);
}

TEST(WorkerStream, RethrowsAtEveryLaterWaitAndDropsLaterWork) {
  WorkerStream stream;
  WorkerStream follower;
  bool ran = false;
  stream.launch([] { throw std::runtime_error("broken link"); });
  const Event event = stream.record();
  stream.launch([&] { ran = true; });
  EXPECT_THROW(event.synchronize(), std::runtime_error);
  EXPECT_THROW(stream.synchronize(), std::runtime_error);
  EXPECT_FALSE(ran);
  // What waits for the failed stream on the device fails as well.
  WorkerStream late;
  std::atomic<bool> recorded = false;
  late.launch([&] {
    while (!recorded) {
    }
    throw std::runtime_error("late");
  });
  follower.wait(late.record());
  recorded = true;
  EXPECT_THROW(follower.synchronize(), std::runtime_error);
}

/// Two streams share one number; `with_event` says whether the second waits for the first.
int lazily_computed(uint64_t seed, bool with_event) {
  LazyScheduler scheduler(seed);
  LazyStream compute(scheduler);
  LazyStream communication(scheduler);
  int value = 1;
  compute.launch([&] { value += 1; });
  if (with_event) {
    communication.wait(compute.record());
  }
  communication.launch([&] { value *= 10; });
  compute.wait(communication.record());
  compute.launch([&] { value += 5; });
  compute.synchronize();
  return value;
}

TEST(LazyStream, CorrectEventsGiveOneResultUnderEverySeed) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    EXPECT_EQ(lazily_computed(seed, true), 25);
  }
}

TEST(LazyStream, AMissingEventIsFound) {
  std::set<int> results;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    results.insert(lazily_computed(seed, false));
  }
  EXPECT_EQ(results, (std::set<int>{16, 25}));
}

TEST(LazyStream, DoesNothingBeforeAWait) {
  LazyScheduler scheduler(1);
  LazyStream stream(scheduler);
  bool ran = false;
  stream.launch([&] { ran = true; });
  const Event event = stream.record();
  EXPECT_FALSE(ran);
  event.synchronize();
  EXPECT_TRUE(ran);
}

TEST(LazyStream, AWaitThatCannotEndIsAnError) {
  struct Never final : EventState {
    bool is_complete() const override { return false; }
    void synchronize() override {}
  };
  LazyScheduler scheduler(1);
  LazyStream stream(scheduler);
  stream.wait(Event(std::make_shared<Never>()));
  EXPECT_THROW(stream.synchronize(), Error);
}

TEST(LazyStream, PassesExceptionsToTheWait) {
  LazyScheduler scheduler(1);
  LazyStream stream(scheduler);
  stream.launch([] { throw std::runtime_error("broken kernel"); });
  EXPECT_THROW(stream.synchronize(), std::runtime_error);
}

}  // namespace
}  // namespace zerolab
