#include <vector>

#include "apps/train_gpt/config/config_table.h"
#include "zero/options.h"
#include "zero/stage.h"

namespace zerolab::app {
namespace {

/// Sets an entry's optional parts, so that a row of the table reads as a sentence.
class Row {
 public:
  explicit Row(Entry& entry) : entry_(entry) {}

  const Row& in(Range range) const { return entry_.range = range, *this; }
  const Row& one_of(Choices choices) const { return entry_.choices = choices, *this; }
  const Row& or_auto() const { return entry_.zero_is_auto = true, *this; }
  const Row& bytes() const { return entry_.unit = Unit::kBytes, *this; }

 private:
  Entry& entry_;
};

template <auto Part>
class Section {
 public:
  Section(std::vector<Entry>& table, std::string_view name) : table_(table), name_(name) {}

  template <auto Member>
  Row key(std::string_view key, std::string_view help) const {
    Entry& entry = table_.emplace_back();
    entry.section = name_;
    entry.key = key;
    entry.help = help;
    entry.field = [](RunConfig& config) -> Field { return &(config.*Part.*Member); };
    entry.stored = [](const RunConfig& config) { return nlohmann::json(config.*Part.*Member); };
    return Row(entry);
  }

 private:
  std::vector<Entry>& table_;
  std::string_view name_;
};

Range at_least(double min) { return {.min = min}; }
Range above(double min) { return {.min = min, .open_min = true}; }
Range between(double min, double max) { return {.min = min, .max = max}; }
Range fraction() { return {.min = 0, .max = 1, .open_max = true}; }

void add_run(std::vector<Entry>& table) {
  const Section<&RunConfig::run> run(table, "run");
  run.key<&RunSection::name>("name", "Name of the run, and of its folder in out_dir.");
  run.key<&RunSection::out_dir>("out_dir", "Folder for the folders of all runs.");
  run.key<&RunSection::seed>("seed", "Seeds initial weights, order of data and dropout.")
      .in(at_least(0));
  run.key<&RunSection::steps>("steps", "Optimizer steps.").in(at_least(1));
  run.key<&RunSection::eval_every>(
         "eval_every", "Steps between two evaluations on the validation split; 0: none.")
      .in(at_least(0));
  run.key<&RunSection::eval_batches>("eval_batches",
                                     "Batches an evaluation reads; 0: the whole validation split.")
      .in(at_least(0));
  run.key<&RunSection::sample_every>("sample_every",
                                     "Steps between two samples of what the model writes; 0: none.")
      .in(at_least(0));
  run.key<&RunSection::sample_prompt>("sample_prompt",
                                      "The text that samples continue; empty: a new text.");
  run.key<&RunSection::log_every>("log_every", "Steps between two log lines.").in(at_least(1));
}

void add_launch(std::vector<Entry>& table) {
  const Section<&RunConfig::launch> launch(table, "launch");
  launch.key<&LaunchSection::ranks>("ranks", "World size N: ranks in this process.")
      .in(between(1, 256));
  launch
      .key<&LaunchSection::device>(
          "device", "Where the ranks compute; auto: cuda where there is a GPU, else cpu.")
      .one_of({"auto", "cpu", "cuda"});
  launch
      .key<&LaunchSection::backend>(
          "backend",
          "Kernels of the CPU: onednn is the fast one, plain is readable loops, the oracle.")
      .one_of({"onednn", "plain"});
  launch
      .key<&LaunchSection::attention>(
          "attention", "Kernels of attention on cuda: zerolab's own, or cuDNN's for bf16 and fp16.")
      .one_of({"flash", "cudnn"});
  launch
      .key<&LaunchSection::threads_per_rank>("threads_per_rank",
                                             "OpenMP threads of a rank; auto: cores / ranks.")
      .in(between(0, 1024))
      .or_auto();
  launch
      .key<&LaunchSection::memory_limit>(
          "memory_limit",
          "Memory a rank may use; auto: 90 % of the memory there is (cuda: free on the device) / "
          "ranks that share it.")
      .in(at_least(0))
      .or_auto()
      .bytes();
}

void add_model(std::vector<Entry>& table) {
  const Section<&RunConfig::model> model(table, "model");
  model.key<&ModelSection::n_layer>("n_layer", "Transformer blocks.").in(between(1, 10000));
  model.key<&ModelSection::n_head>("n_head", "Attention heads; must divide n_embd.")
      .in(between(1, 10000));
  model.key<&ModelSection::n_embd>("n_embd", "Width of the embedding.").in(between(1, 1000000));
  model.key<&ModelSection::block_size>("block_size", "Tokens of context, T.")
      .in(between(1, 1000000));
  model
      .key<&ModelSection::vocab_size>("vocab_size",
                                      "Tokens in the vocabulary; 0: from the tokenizer.")
      .in(between(0, 100000000));
  model.key<&ModelSection::bias>("bias", "Biases in linear layers and layer norms.");
  model.key<&ModelSection::dropout>("dropout", "Probability that an activation is dropped.")
      .in(fraction());
  model.key<&ModelSection::tie_weights>("tie_weights",
                                        "The token embedding is also the output layer's weight.");
  model.key<&ModelSection::init_from>("init_from",
                                      "Weights to start from: a safetensors file with GPT-2's "
                                      "names, or llm.c's .bin; empty: random.");
}

void add_data(std::vector<Entry>& table) {
  const Section<&RunConfig::data> data(table, "data");
  data.key<&DataSection::path>(
      "path",
      "Text files or .bin files of tokens (docs/data.md): a file, a glob or a list of them, taken "
      "relative to the config file's folder if they exist there, else to the working directory.");
  data.key<&DataSection::tokenizer>(
          "tokenizer", "What a token is: a byte, a character of the text, or one of GPT-2's.")
      .one_of({"byte", "char", "gpt2"});
  data.key<&DataSection::vocab>(
      "vocab",
      "Folder with GPT-2's encoder.json and vocab.bpe, which tokenizer gpt2 reads; taken as path.");
  data.key<&DataSection::order>(
          "order",
          "Order of the windows of T tokens: a seeded permutation an epoch, or as they stand.")
      .one_of({"shuffled", "sequential"});
  data.key<&DataSection::val_fraction>("val_fraction",
                                       "Part of the data, at its end, kept for validation.")
      .in(fraction());
}

void add_train(std::vector<Entry>& table) {
  const Section<&RunConfig::train> train(table, "train");
  train
      .key<&TrainSection::train_batch_size>(
          "train_batch_size",
          "Global batch in samples = micro_batch_size x gradient_accumulation_steps x ranks. "
          "Any two of the three give the third, exactly or not at all.")
      .in(between(0, 1e12))
      .or_auto();
  train
      .key<&TrainSection::micro_batch_size>(
          "micro_batch_size",
          "Samples in one forward and backward of one rank; auto: 8 if nothing gives it.")
      .in(between(0, 1e6))
      .or_auto();
  train
      .key<&TrainSection::gradient_accumulation_steps>(
          "gradient_accumulation_steps", "Micro-batches a step, k; auto: 1 if nothing gives it.")
      .in(between(0, 1e6))
      .or_auto();
  train
      .key<&TrainSection::precision>(
          "precision",
          "Data type of parameters and activations; bf16 and fp16 have fp32 master weights; tf32 "
          "is fp32 whose products round their factors to 10 bits of fraction (cuda).")
      .one_of({"fp32", "tf32", "bf16", "fp16"});
  train
      .key<&TrainSection::max_skipped_steps>(
          "max_skipped_steps",
          "Steps in a row that may be skipped for non-finite gradients before the run ends.")
      .in(at_least(0));
}

void add_loss_scale(std::vector<Entry>& table) {
  const Section<&RunConfig::loss_scale> loss_scale(table, "loss_scale");
  loss_scale
      .key<&LossScaleSection::mode>(
          "mode",
          "What the loss is multiplied by before the backward: one scale for ever, or one that is "
          "halved when gradients overflow; auto: dynamic in fp16, else static. Never dynamic in "
          "fp32.")
      .one_of({"auto", "static", "dynamic"});
  loss_scale
      .key<&LossScaleSection::initial>(
          "initial", "Scale of the first step, or of all; auto: 65536 where it is dynamic, else 1.")
      .in(at_least(0))
      .or_auto();
  loss_scale
      .key<&LossScaleSection::window>("window",
                                      "Steps without overflow before a dynamic scale doubles.")
      .in(between(1, 1e9));
  loss_scale
      .key<&LossScaleSection::hysteresis>(
          "hysteresis", "Which overflow halves a dynamic scale first; each later one does too.")
      .in(between(1, 1e9));
  loss_scale
      .key<&LossScaleSection::min>(
          "min", "Least dynamic scale; an overflow there ends the run with an error.")
      .in(above(0));
}

void add_optimizer(std::vector<Entry>& table) {
  const Section<&RunConfig::optimizer> optimizer(table, "optimizer");
  optimizer
      .key<&OptimizerSection::name>("name",
                                    "adamw and sgd are PyTorch's; lion has half of adamw's state.")
      .one_of({"adamw", "sgd", "lion"});
  optimizer.key<&OptimizerSection::lr>("lr", "Learning rate, at its highest.").in(at_least(0));
  optimizer
      .key<&OptimizerSection::betas>("betas",
                                     "Decay of adamw's two moments, exp_avg and exp_avg_sq; of "
                                     "lion's direction and its exp_avg.")
      .in(fraction());
  optimizer.key<&OptimizerSection::eps>("eps", "Added to adamw's denominator.").in(above(0));
  optimizer
      .key<&OptimizerSection::weight_decay>("weight_decay",
                                            "Applies to parameters of two or more dimensions.")
      .in(at_least(0));
  optimizer.key<&OptimizerSection::momentum>("momentum", "Of sgd.").in(fraction());
  optimizer
      .key<&OptimizerSection::gradient_clipping>(
          "gradient_clipping", "Largest norm of the whole gradient; 0: no clipping.")
      .in(at_least(0));
}

void add_schedule(std::vector<Entry>& table) {
  const Section<&RunConfig::schedule> schedule(table, "schedule");
  schedule.key<&ScheduleSection::name>("name", "How lr falls after the warm-up.")
      .one_of({"constant", "cosine", "linear"});
  schedule
      .key<&ScheduleSection::warmup_steps>("warmup_steps", "Steps over which lr rises linearly.")
      .in(at_least(0));
  schedule
      .key<&ScheduleSection::min_lr>(
          "min_lr", "Learning rate that cosine and linear fall to, after run.steps.")
      .in(at_least(0));
}

void add_zero(std::vector<Entry>& table) {
  const Section<&RunConfig::zero> zero(table, "zero");
  zero.key<&ZeroSection::stage>(
          "stage", "What is partitioned: 0 nothing (DDP), 1 optimizer state, 2 gradients too.")
      .in(between(0, zero::kLastStage));
  zero.key<&ZeroSection::layout>(
          "layout", "A rank owns a slice of every bucket, or (DeepSpeed's) one contiguous range.")
      .one_of({"bucketed", "contiguous"});
  zero.key<&ZeroSection::reduce_scatter>(
      "reduce_scatter",
      "Reduce each slice to its owner only (1.0x volume); false: all-reduce (1.5x).");
  zero.key<&ZeroSection::reduce_bucket_size>(
          "reduce_bucket_size", "Elements in a bucket; auto: min(5e8, max(2^16, parameters / 16)).")
      .in(at_least(0))
      .or_auto();
  zero.key<&ZeroSection::allgather_bucket_size>(
          "allgather_bucket_size",
          "Elements gathered at once in the contiguous layout, the only one that has it; auto: "
          "5e8.")
      .in(at_least(0))
      .or_auto();
  zero.key<&ZeroSection::contiguous_gradients>(
      "contiguous_gradients",
      "Gradients are written into their bucket; false: packed when it is reduced.");
  zero.key<&ZeroSection::overlap_comm>("overlap_comm", "Reduce while backward still runs.");
  zero.key<&ZeroSection::prescale_gradients>(
      "prescale_gradients",
      "Divide gradients by N before the all-reduce instead of after it; only with reduce_scatter = "
      "false.");
  zero.key<&ZeroSection::gradient_predivide_factor>(
          "gradient_predivide_factor",
          "Divide gradients by this factor f before the all-reduce and by N / f after it; only "
          "with reduce_scatter = false.")
      .in(above(0));
  zero.key<&ZeroSection::communication_dtype>(
          "communication_dtype",
          "Data type of the buckets; auto: the parameters' where each micro-batch is reduced, else "
          "gradient_accumulation_dtype.")
      .one_of({"auto", "fp32", "bf16", "fp16"});
  zero.key<&ZeroSection::gradient_accumulation_dtype>(
          "gradient_accumulation_dtype",
          "Data type gradients are kept in, fp32 or the parameters'; auto: the parameters' at k = "
          "1, else fp32.")
      .one_of({"auto", "fp32", "bf16", "fp16"});
  zero.key<&ZeroSection::reduce_each_micro_batch>(
      "reduce_each_micro_batch",
      "Stages 0 and 1 reduce each micro-batch, as stage 2 does: then all bits agree.");
  zero.key<&ZeroSection::schedule>(
      "schedule",
      "Stages to switch to while the run goes on: [[zero.schedule]] step = 100, stage = 1 switches "
      "to stage 1 before step 100 (from 1). Steps must rise.");
}

void add_log(std::vector<Entry>& table) {
  const Section<&RunConfig::log> log(table, "log");
  log.key<&LogSection::metrics>("metrics", "Write <out_dir>/<name>/metrics.jsonl and config.toml.");
  log.key<&LogSection::console>(
         "console",
         "Progress: a live view on a terminal and plain lines elsewhere, always plain lines, or "
         "none.")
      .one_of({"auto", "plain", "off"});
  log.key<&LogSection::tensorboard>(
      "tensorboard", "Write <out_dir>/<name>/events.out.tfevents.zerolab for TensorBoard.");
  log.key<&LogSection::trace>("trace",
                              "Write <out_dir>/<name>/trace.json, a timeline of all ranks for "
                              "Perfetto or chrome://tracing.");
  log.key<&LogSection::trace_first_step>(
         "trace_first_step", "First step of the trace; the run's first is not like the others.")
      .in(at_least(1));
  log.key<&LogSection::trace_steps>("trace_steps", "Steps in the trace.").in(between(1, 100));
  log.key<&LogSection::dashboard>(
      "dashboard",
      "Serve the report's page while the run goes on: at a port of this machine alone, such as "
      "\"8080\", or at HOST:PORT; port 0: any that is free; empty: no page. Needs log.metrics.");
  log.key<&LogSection::peak_tflops>(
         "peak_tflops",
         "Most that all ranks' processors together can multiply, in 10^12 operations a second, for "
         "the report's MFU; 0: not known, and MFU is left out.")
      .in(at_least(0));
}

void add_checkpoint(std::vector<Entry>& table) {
  const Section<&RunConfig::checkpoint> checkpoint(table, "checkpoint");
  checkpoint
      .key<&CheckpointSection::every>(
          "every", "Steps between two checkpoints; the last step has one too. 0: none.")
      .in(at_least(0));
  checkpoint.key<&CheckpointSection::keep>("keep", "Checkpoints that are kept, the newest; 0: all.")
      .in(at_least(0));
  checkpoint.key<&CheckpointSection::on_signal>(
      "on_signal", "SIGINT and SIGTERM save before the run ends; only with every > 0.");
}

void add_comm(std::vector<Entry>& table) {
  const Section<&RunConfig::comm> comm(table, "comm");
  comm.key<&CommSection::timeout_s>(
          "timeout_s", "Seconds a rank waits for its peers before the run ends with an error.")
      .in({.min = 0, .max = 1e6, .open_min = true});
  comm.key<&CommSection::bandwidth_gbps>(
          "bandwidth_gbps",
          "Model a link of so many Gbit/s in each direction of each rank, whose time collectives "
          "take; 0: as fast as memory.")
      .in(at_least(0));
  comm.key<&CommSection::latency_us>(
          "latency_us", "Latency of the modelled link, in microseconds a round of a collective.")
      .in(at_least(0));
}

void add_debug(std::vector<Entry>& table) {
  const Section<&RunConfig::debug> debug(table, "debug");
  debug.key<&DebugSection::poison>(
      "poison",
      "Fill freed blocks and slices that a rank does not own with NaN, and tell which ranks a "
      "non-finite gradient came from.");
  debug
      .key<&DebugSection::hash_every>(
          "hash_every",
          "Steps between two comparisons of the ranks' parameters, which must be the same bits; 0: "
          "none.")
      .in(at_least(0));
  debug
      .key<&DebugSection::jitter>("jitter",
                                  "Longest random delay of a rank before a collective, in "
                                  "microseconds; seeded by run.seed.")
      .in(at_least(0));
}

std::vector<Entry> make_table() {
  std::vector<Entry> table;
  add_run(table);
  add_launch(table);
  add_model(table);
  add_data(table);
  add_train(table);
  add_loss_scale(table);
  add_optimizer(table);
  add_schedule(table);
  add_zero(table);
  add_log(table);
  add_checkpoint(table);
  add_comm(table);
  add_debug(table);
  return table;
}

}  // namespace

const std::vector<Entry>& config_table() {
  static const std::vector<Entry> table = make_table();
  return table;
}

}  // namespace zerolab::app
