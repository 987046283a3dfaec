#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "apps/train_gpt/metrics/environment.h"
#include "apps/train_gpt/metrics/trace.h"
#include "apps/train_gpt/setup/launch.h"
#include "apps/train_gpt/training/training_run.h"
#include "checkpoint/folder.h"
#include "cuda_sim/simulator.h"
#include "framework/core/error.h"
#include "tests/data/test_files.h"
#include "tests/train_gpt/config/configs.h"
#include "tests/train_gpt/metrics/trace_file.h"

namespace zerolab::app {
namespace {

/// What train-gpt does with `launch.device`, on simulated devices.
class CudaApp : public testing::Test {
 protected:
  CudaApp() { cuda_sim::reset(1); }
  ~CudaApp() override { cuda_sim::set_devices(1); }

  RunConfig config(const std::vector<std::string>& overrides) {
    std::vector<std::string> all = {
        "launch.device=auto", "launch.ranks=2",     "data.path=" + text_,      "run.steps=3",
        "run.eval_every=3",   "run.eval_batches=1", "model.n_layer=1",         "model.n_head=2",
        "model.n_embd=16",    "model.block_size=8", "train.micro_batch_size=2"};
    all.insert(all.end(), overrides.begin(), overrides.end());
    return resolved(all);
  }
  RunSummary train(const RunConfig& config) {
    RunObserver observer;
    const std::atomic<bool> stop = false;
    return run_training(config, load_training_data(config), observer, stop);
  }

  data::TempDir folder_;
  std::string text_ = folder_.write("text.txt", std::string(2000, 'a') + std::string(2000, 'b'));
};

TEST_F(CudaApp, AutoTakesTheDevicesAndTheirMemory) {
  constexpr size_t kGiB = size_t{1} << 30;
  cuda_sim::set_devices(1, 8 * kGiB);
  const RunConfig one = config({"launch.ranks=4"});
  EXPECT_EQ(one.launch.device, "cuda");
  EXPECT_EQ(one.launch.memory_limit, static_cast<int64_t>(8 * kGiB) / 10 * 9 / 4);
  cuda_sim::set_devices(3, 8 * kGiB);
  EXPECT_EQ(config({"launch.ranks=4"}).launch.memory_limit,
            static_cast<int64_t>(8 * kGiB) / 10 * 9 / 2);
  EXPECT_EQ(config({"launch.device=cpu"}).launch.device, "cpu");
}

TEST_F(CudaApp, WithoutADeviceAutoIsTheCpuAndCudaIsRefused) {
  cuda_sim::set_devices(0);
  EXPECT_EQ(config({}).launch.device, "cpu");
  EXPECT_EQ(error_of([&] { config({"launch.device=cuda"}); }),
            "[config] --set launch.device: launch.device; got \"cuda\", but there is an NVIDIA "
            "driver, but no device that it shows to this program (see nvidia-smi and "
            "CUDA_VISIBLE_DEVICES); use \"cpu\"");
}

TEST_F(CudaApp, TheLogNamesTheDevicesAndTheirLibraries) {
  const nlohmann::json machine = environment_json(config({}));
  EXPECT_EQ(machine.at("devices").size(), 1);
  for (const char* library : {"cuda_runtime", "cuda_driver", "cublaslt", "nccl"}) {
    EXPECT_NE(machine.at("libraries").value(library, ""), "") << library;
  }
  EXPECT_FALSE(machine.at("libraries").contains("cudnn"));  // it is not in use
  EXPECT_FALSE(environment_json(config({"launch.device=cpu"})).at("libraries").contains("nccl"));
}

TEST_F(CudaApp, EveryStageTrainsWithTheSameBits) {
  const RunSummary ddp = train(config({"zero.stage=0"}));
  ASSERT_EQ(ddp.losses.size(), 3);
  EXPECT_NE(ddp.losses[0], ddp.losses[2]);
  for (const char* stage : {"1", "2"}) {
    const std::string set = std::string("zero.stage=") + stage;
    const RunSummary run = train(config({set, "zero.overlap_comm=true"}));
    EXPECT_EQ(run.losses, ddp.losses) << set;
    EXPECT_EQ(run.evaluation->loss, ddp.evaluation->loss) << set;
  }
}

/// The dry run asks for the bytes that the run on the device takes.
TEST_F(CudaApp, TheDryRunIsTheRun) {
  for (const char* stage : {"0", "1", "2"}) {
    const RunConfig run = config({std::string("zero.stage=") + stage, "run.eval_every=0"});
    const TrainingData data = load_training_data(run);
    const MemoryLedger::Snapshot predicted = dry_run(run, data.vocab_size, 0);
    EXPECT_EQ(train(run).memory[0].peak, predicted.peak) << "stage " << stage;
  }
}

/// A run on a device is saved by way of the host, and goes on under another stage with its bits.
TEST_F(CudaApp, ACheckpointOfADeviceIsResumed) {
  const RunSummary whole = train(config({"zero.stage=1", "train.precision=bf16"}));
  const RunConfig first = config({"zero.stage=2", "train.precision=bf16", "run.steps=2",
                                  "run.eval_every=0", "checkpoint.every=2"});
  const TrainingData data = load_training_data(first);
  RunObserver observer;
  const std::atomic<bool> stop = false;
  {
    checkpoint::Writer writer(checkpoint::Folder(folder_.path("saved")), 2, 0);
    const RunSummary saved = run_training(first, data, observer, stop, {nullptr, &writer});
    EXPECT_EQ(saved.checkpoint_error, "");
    EXPECT_EQ(saved.memory[0].peak, dry_run(first, data.vocab_size, 0).peak);
  }
  const checkpoint::Checkpoint saved(checkpoint::find_checkpoint(folder_.path("saved")));
  const RunConfig rest = config({"zero.stage=1", "train.precision=bf16"});
  const RunSummary resumed = run_training(rest, data, observer, stop, {&saved, nullptr});
  ASSERT_EQ(resumed.losses.size(), 1u);
  EXPECT_EQ(resumed.losses[0], whole.losses[2]);
  EXPECT_EQ(resumed.evaluation->loss, whole.evaluation->loss);
}

/// NCCL joins ranks that have a device each; the bits are those of ranks that share one.
TEST_F(CudaApp, NcclJoinsRanksWithADeviceEach) {
  const RunSummary shared = train(config({"zero.stage=2"}));
  EXPECT_EQ(shared.info.communicator, "local");
  cuda_sim::set_devices(2);
  const RunConfig two = config({"zero.stage=2", "run.eval_every=0"});
  const RunSummary joined = train(two);
  EXPECT_EQ(joined.info.communicator, "nccl");
  EXPECT_EQ(joined.losses, shared.losses);
  EXPECT_EQ(joined.bytes_sent_per_step(), shared.bytes_sent_per_step());
  const int64_t vocab_size = load_training_data(two).vocab_size;
  EXPECT_EQ(joined.memory[0].peak, dry_run(two, vocab_size, 0).peak);
}

/// Spans of a device arrive late and in its own time: the trace is whole and nests all the same.
TEST_F(CudaApp, ATraceHoldsTheDevicesSpans) {
  struct Writer final : RunObserver {
    explicit Writer(const data::TempDir& folder) : file(folder.path(""), "trace.json", "trace") {}
    void on_trace(const Trace& trace) override { trace.write(file); }
    RunFile file;
  };
  for (const int devices : {1, 2}) {  // the local communicator, and NCCL
    cuda_sim::set_devices(devices);
    for (const char* overlap : {"zero.overlap_comm=true", "zero.overlap_comm=false"}) {
      Writer writer(folder_);
      const std::atomic<bool> stop = false;
      const RunConfig traced = config({"zero.stage=2", overlap, "run.eval_every=0", "run.steps=5",
                                       "zero.reduce_bucket_size=1000", "log.trace=true"});
      const RunSummary summary = run_training(traced, load_training_data(traced), writer, stop);
      const test::TraceFile trace(writer.file.path());
      for (int rank = 0; rank < 2; ++rank) {
        EXPECT_EQ(trace.names(rank, test::kSteps),
                  (std::vector<std::string>{"step 2", "step 3", "step 4"}));
        for (const char* phase : {"forward", "backward", "norm", "update"}) {
          EXPECT_EQ(trace.named(rank, test::kCompute, phase).size(), 3) << phase;
        }
        EXPECT_EQ(trace.named(rank, test::kCompute, "h.0.attn").size(), 2 * 3);
        EXPECT_EQ(trace.collectives(rank, "gradient").size(), 3 * summary.info.num_buckets);
        EXPECT_EQ(trace.collectives(rank, "parameter").size(), 3 * summary.info.num_buckets);
      }
      EXPECT_EQ(trace.starts.size(), 2 * 3 * summary.info.num_buckets);
      for (const auto& [id, start] : trace.starts) {
        EXPECT_LE(start.at("ts").get<double>(), trace.ends.at(id).at("ts").get<double>());
      }
    }
  }
}

TEST_F(CudaApp, ALinkIsModelledByTheLocalCommunicatorOnly) {
  cuda_sim::set_devices(2);
  EXPECT_EQ(plan_group(config({"comm.latency_us=5"})).name, "local");
  EXPECT_EQ(plan_group(config({"debug.jitter=5"})).name, "local");
  EXPECT_EQ(plan_group(config({"launch.ranks=1"})).name, "local");
  EXPECT_EQ(plan_group(config({"launch.device=cpu"})).name, "local");
  EXPECT_EQ(plan_group(config({})).name, "nccl");
}

TEST_F(CudaApp, MoreRanksThanDevicesReadEachOthersMemory) {
  cuda_sim::set_devices(2);
  const RunConfig three = config({"launch.ranks=3", "run.eval_every=0"});
  EXPECT_EQ(train(three).info.communicator, "local");
  cuda_sim::set_devices(2, size_t{16} << 30, false);
  try {
    train(three);
    FAIL() << "devices that cannot reach each other shared memory";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("device 0 cannot read the memory of device 1"),
              std::string::npos)
        << error.what();
  }
}

TEST_F(CudaApp, Tf32IsFp32WithRoundedFactors) {
  const RunSummary fp32 = train(config({}));
  const RunSummary tf32 = train(config({"train.precision=tf32"}));
  EXPECT_NE(tf32.losses, fp32.losses);
  EXPECT_NEAR(tf32.losses[2], fp32.losses[2], 1e-2 * fp32.losses[2]);
  EXPECT_EQ(tf32.memory[0].peak, fp32.memory[0].peak);
}

TEST_F(CudaApp, WhatOnlyGpusCanIsRefusedOnTheCpu) {
  EXPECT_EQ(error_of([&] {
              config({"launch.device=cpu", "train.precision=tf32"});
            }),
            "[config] --set train.precision: train.precision; got \"tf32\", expected \"fp32\" on "
            "launch.device \"cpu\"");
  EXPECT_EQ(error_of([&] {
              config({"launch.device=cpu", "launch.attention=cudnn"});
            }),
            "[config] --set launch.attention: launch.attention; got \"cudnn\", expected \"flash\" "
            "on launch.device \"cpu\"");
  EXPECT_EQ(error_of([&] { config({"launch.attention=cudnn"}); }),
            "[config] --set launch.attention: launch.attention; got \"cudnn\", expected \"flash\" "
            "with train.precision \"fp32\": cuDNN's attention has bf16 and fp16");
}

/// What the simulated devices had after each step.
struct Counts final : RunObserver {
  void on_step(const StepRecord&) override {
    allocations.push_back(cuda_sim::num_allocations());
    host_waits.push_back(cuda_sim::num_host_waits());
  }
  std::vector<size_t> allocations;
  std::vector<size_t> host_waits;
};

/// Of one rank, so that all of a step is done when it is counted. The waits are the copies of the
/// batch through pinned memory, and of the control words to the host; more layers and buckets do
/// not add to them.
TEST_F(CudaApp, AStepAllocatesNothingAndWaitsForItsResultOnly) {
  const auto counts_of = [&](const char* layers) {
    const RunConfig run = config({"launch.ranks=1", "zero.stage=2", "zero.overlap_comm=true",
                                  "zero.reduce_bucket_size=600", "run.steps=5", "run.eval_every=0",
                                  std::string("model.n_layer=") + layers});
    Counts counts;
    const std::atomic<bool> stop = false;
    run_training(run, load_training_data(run), counts, stop);
    return counts;
  };
  const Counts one = counts_of("1");
  const Counts three = counts_of("3");
  for (const Counts* counts : {&one, &three}) {
    for (size_t step = 2; step + 1 < counts->allocations.size();
         ++step) {  // reports are a step late
      EXPECT_EQ(counts->allocations[step], counts->allocations[1]) << "step " << step + 1;
      EXPECT_EQ(counts->host_waits[step] - counts->host_waits[step - 1],
                one.host_waits[2] - one.host_waits[1])
          << "step " << step + 1;
    }
  }
  EXPECT_LE(one.host_waits[2] - one.host_waits[1], 3);
}

TEST_F(CudaApp, TimesAreTheDevices) {
  const RunSummary run = train(config({"zero.stage=2"}));
  EXPECT_GT(run.ms.forward, 0.0);
  EXPECT_GT(run.ms.backward, 0.0);
  EXPECT_GT(run.ms.optimizer, 0.0);
}

}  // namespace
}  // namespace zerolab::app
