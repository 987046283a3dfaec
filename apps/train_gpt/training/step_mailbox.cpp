#include "apps/train_gpt/training/step_mailbox.h"

namespace zerolab::app {

std::vector<StepMailbox::Message> StepMailbox::read(int64_t step) const {
  std::vector<Message> messages = boxes_[step % 2];
  for (Message& message : messages) {
    if (message.step != step) {
      message = Message();
      message.step = step;
    }
  }
  return messages;
}

}  // namespace zerolab::app
