#include "apps/train_gpt/training/step_mailbox.h"

#include <gtest/gtest.h>

namespace zerolab::app {
namespace {

StepMailbox::Message message_of(int64_t step, int64_t peak, int64_t sent) {
  StepMailbox::Message message;
  message.step = step;
  message.memory.total_peak = peak;
  message.communication[{CollectiveOp::kAllReduce, Purpose::kGradient}].bytes_sent = sent;
  return message;
}

int64_t sent(const StepMailbox::Message& message) {
  return total_of(message.communication, Purpose::kGradient).bytes_sent;
}

/// Rank 1 is a step ahead, as a rank may be that rank 0 has not read yet.
TEST(StepMailbox, HoldsAStepWhileTheNextIsPosted) {
  StepMailbox mailbox(2);
  mailbox.post(0, message_of(1, 10, 100));
  mailbox.post(1, message_of(1, 11, 101));
  mailbox.post(1, message_of(2, 21, 201));
  const std::vector<StepMailbox::Message> first = mailbox.read(1);
  ASSERT_EQ(first.size(), 2);
  EXPECT_EQ(first[0].memory.total_peak, 10);
  EXPECT_EQ(first[1].memory.total_peak, 11);
  EXPECT_EQ(sent(first[0]), 100);
  EXPECT_EQ(sent(first[1]), 101);
  mailbox.post(0, message_of(2, 20, 200));
  EXPECT_EQ(sent(mailbox.read(2)[0]), 200);
  EXPECT_EQ(sent(mailbox.read(2)[1]), 201);
}

/// What it posted two steps before is not taken for this step's.
TEST(StepMailbox, ARankThatFailedHasAnEmptyMessage) {
  StepMailbox mailbox(2);
  for (const int64_t step : {1, 2}) {
    mailbox.post(0, message_of(step, 10, 100));
    mailbox.post(1, message_of(step, 11, 101));
  }
  mailbox.post(0, message_of(3, 30, 300));
  const std::vector<StepMailbox::Message> messages = mailbox.read(3);
  EXPECT_EQ(sent(messages[0]), 300);
  EXPECT_EQ(messages[1].step, 3);
  EXPECT_EQ(messages[1].memory.total_peak, 0);
  EXPECT_TRUE(messages[1].communication.empty());
}

}  // namespace
}  // namespace zerolab::app
