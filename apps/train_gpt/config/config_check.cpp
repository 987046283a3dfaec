#include "apps/train_gpt/config/config_check.h"

#include "apps/train_gpt/config/listen_address.h"
#include "apps/train_gpt/config/refuse.h"

namespace zerolab::app {

void check_sections(const RunConfig& config) {
  const std::string& name = config.run.name;
  if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos) {
    refuse(config, "run.name", "run.name; got \"{}\", expected the name of one folder", name);
  }
  if (config.run.eval_every > 0 && config.data.val_fraction == 0) {
    refuse(config, "run.eval_every",
           "run.eval_every needs a validation split; got data.val_fraction 0, expected > 0");
  }
  if ((config.data.tokenizer == "gpt2") != !config.data.vocab.empty()) {
    refuse(config, config.data.vocab.empty() ? "data.tokenizer" : "data.vocab",
           "data.tokenizer \"gpt2\" and data.vocab need each other; got tokenizer \"{}\" and vocab "
           "\"{}\", expected the folder with GPT-2's encoder.json and vocab.bpe, or neither",
           config.data.tokenizer, config.data.vocab);
  }
  if (config.model.n_embd % config.model.n_head != 0) {
    refuse(config, "model.n_embd",
           "model.n_embd does not divide into heads; got {}, expected a multiple of n_head {}",
           config.model.n_embd, config.model.n_head);
  }
  if (config.optimizer.name != "sgd" && config.optimizer.momentum != 0) {
    refuse(config, "optimizer.momentum",
           "optimizer.momentum is sgd's; got {0} with {1}, expected 0; {1} has betas",
           config.optimizer.momentum, config.optimizer.name);
  }
  if (config.schedule.warmup_steps > config.run.steps) {
    refuse(config, "schedule.warmup_steps",
           "schedule.warmup_steps; got {}, expected at most run.steps {}",
           config.schedule.warmup_steps, config.run.steps);
  }
  if (config.log.trace && config.log.trace_first_step > config.run.steps) {
    refuse(config, "log.trace_first_step",
           "log.trace_first_step; got {}, expected at most run.steps {}",
           config.log.trace_first_step, config.run.steps);
  }
  if (!config.log.dashboard.empty()) {
    if (!parse_listen_address(config.log.dashboard).has_value()) {
      refuse(config, "log.dashboard",
             "log.dashboard; got \"{}\", expected a port or HOST:PORT, such as \"8080\" or "
             "\"127.0.0.1:8080\"",
             config.log.dashboard);
    }
    if (!config.log.metrics) {
      refuse(config, "log.dashboard",
             "log.dashboard shows what is logged; got log.metrics false, expected true");
    }
  }
  for (size_t i = 0; i < config.zero.schedule.size(); ++i) {
    if (config.zero.schedule[i].step > config.run.steps) {
      refuse(config, fmt::format("zero.schedule[{}]", i),
             "zero.schedule.step; got {}, expected at most run.steps {}",
             config.zero.schedule[i].step, config.run.steps);
    }
  }
  if (config.schedule.name != "constant" && config.schedule.min_lr > config.optimizer.lr) {
    refuse(config, "schedule.min_lr", "schedule.min_lr; got {}, expected at most optimizer.lr {}",
           config.schedule.min_lr, config.optimizer.lr);
  }
}

}  // namespace zerolab::app
