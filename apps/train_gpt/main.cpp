#include <CLI/CLI.hpp>
#include <atomic>
#include <charconv>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <limits>
#include <thread>

#include "apps/train_gpt/commands.h"
#include "apps/train_gpt/compare_variants.h"
#include "apps/train_gpt/plan_command.h"
#include "apps/train_gpt/prepare_command.h"
#include "apps/train_gpt/version.h"
#include "framework/core/error.h"
#include "framework/memory/allocator.h"

namespace {

std::atomic<bool> stop_requested = false;

extern "C" void request_stop(int signal) {
  stop_requested = true;
  std::signal(signal, SIG_DFL);  // a second one ends at once
}

}  // namespace

int main(int argc, char** argv) {
  using namespace zerolab;
  keep_large_blocks();

  CLI::App program("train-gpt: trains a GPT under DDP, ZeRO-1 or ZeRO-2, and compares them.");
  program.set_version_flag("--version", app::kVersion);
  program.require_subcommand(1);
  program.footer([] { return app::config_help(); });
  std::string file;
  std::vector<std::string> overrides;
  const auto add_config = [&](CLI::App& command) {
    CLI::Option* const option = command.add_option("CONFIG", file, "TOML file")->required();
    command
        .add_option("--set", overrides,
                    "section.key=value, over what the file says; may be repeated")
        ->allow_extra_args(false);
    return option;
  };
  CLI::App* train = program.add_subcommand("train", "Train one run");
  CLI::Option* const train_file = add_config(*train);
  std::string resume;
  train->add_option("--resume", resume,
                    "Go on from a checkpoint: \"latest\" of the run that CONFIG names, or a path; "
                    "without CONFIG with the configuration that the checkpoint holds");
  CLI::App* compare =
      program.add_subcommand("compare", "Train once a variant and set them side by side");
  add_config(*compare);
  std::vector<int> stages = {0, 1, 2};
  CLI::Option* stages_option = compare->add_option("--stages", stages, "Stages to compare")
                                   ->delimiter(',')
                                   ->allow_extra_args(false)
                                   ->check(CLI::Range(0, 2));
  bool variants = false;
  compare
      ->add_flag(
          "--variants", variants,
          "Compare ways to reduce gradients instead: DDP, the first ZeRO-1 (all-reduce), and "
          "ZeRO-1 and ZeRO-2 with a reduction to each owner and with a reduce-scatter")
      ->excludes(stages_option);
  std::vector<std::string> precisions;
  compare
      ->add_option(
          "--precisions", precisions,
          "Compare precisions instead, under the configuration's stage: fp32,tf32,bf16,fp16")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember({"fp32", "tf32", "bf16", "fp16"}))
      ->excludes(stages_option)
      ->excludes("--variants");
  CLI::App* plan = program.add_subcommand(
      "plan", "Predict memory, communication and time of a step for any number of ranks");
  add_config(*plan);
  app::PlanOptions planning;
  std::vector<std::string> settings;  // that the options below stand for
  std::vector<std::string> models;
  plan->add_option("--ranks", planning.ranks,
                   "Numbers of ranks, such as 8,64,1024; without it launch.ranks")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(1, 100'000));
  plan->add_option("--stages", planning.stages, "Stages to plan")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(0, 2));
  plan->add_option("--model", models,
                   "Plan another model too: keys of [model] over the file's, such as "
                   "n_layer=48,n_embd=1600; may be repeated")
      ->allow_extra_args(false);
  const CLI::Validator positive(
      [](const std::string& text) {
        double number = 0.0;
        std::from_chars(text.data(), text.data() + text.size(), number);
        return number > 0.0 && std::isfinite(number)
                   ? std::string()
                   : "got " + text + ", expected a positive number";
      },
      "POSITIVE");
  const auto add_setting = [&](const std::string& name, const std::string& key,
                               const std::string& help) {
    plan->add_option_function<std::string>(
        name, [&settings, key](const std::string& value) { settings.push_back(key + "=" + value); },
        fmt::format("{}; short for --set {}=…", help, key));
  };
  add_setting("--link", "comm.bandwidth_gbps", "Gbit/s of a rank's link in each direction");
  add_setting("--latency-us", "comm.latency_us", "Microseconds a round of a collective");
  add_setting("--memory", "launch.memory_limit", "Memory of a rank, such as 80GiB");
  plan->add_option("--tflops", planning.tflops,
                   "TFLOP/s that a rank reaches in matrix products; without it they are measured "
                   "here, with the memory's bandwidth")
      ->check(positive);
  plan->add_option("--memory-bandwidth", planning.memory_bandwidth_gbps,
                   "GB/s that a rank reads and writes in its memory; with --tflops alone memory "
                   "takes no time")
      ->check(positive);
  CLI::Option* map = plan->add_flag("--map", planning.map,
                                    "Print the layout: which rank owns which range of which "
                                    "parameter");
  CLI::Option* json =
      plan->add_option("--json", planning.json, "Write the result to this file as well");
  bool check = false;
  plan->add_flag("--check", check,
                 "Run a few steps under each stage here and set them beside the plan; a byte that "
                 "differs is an error")
      ->excludes("--ranks")
      ->excludes("--model")
      ->excludes(map)
      ->excludes(json);
  CLI::App* report = program.add_subcommand(
      "report", "Show what runs have logged as one HTML page, which works offline");
  std::vector<std::filesystem::path> runs;
  report->add_option("RUN", runs, "Folders of runs, or their metrics.jsonl")->required();
  std::filesystem::path page = "report.html";
  report->add_option("-o,--output", page, "The page")->capture_default_str();
  CLI::App* checkpoint = program.add_subcommand(
      "checkpoint", "Look at checkpoints: of a run's folder, or one by its path");
  checkpoint->require_subcommand(1);
  std::filesystem::path checkpoint_path;
  const auto add_checkpoint = [&](const std::string& name, const std::string& help) {
    CLI::App* const command = checkpoint->add_subcommand(name, help);
    command->add_option("PATH", checkpoint_path, "A run's folder, or a checkpoint's")->required();
    return command;
  };
  CLI::App* verify = add_checkpoint("verify", "Read all of the newest, and find what is damaged");
  CLI::App* show = add_checkpoint("show", "Print what the newest holds, and its configuration");
  add_checkpoint("list", "Print a line for each");
  app::SavedModel::Source source;
  const auto add_source = [&](CLI::App& command) {
    CLI::Option_group* group = command.add_option_group("model", "Which model, one of");
    group->add_option("--checkpoint", source.checkpoint,
                      "A checkpoint, or a run's folder for its latest");
    group->add_option("--config", source.config, "TOML file whose model.init_from has the weights");
    group->require_option(1);
    command
        .add_option("--set", source.overrides,
                    "section.key=value, over what was saved or the file says; may be repeated")
        ->allow_extra_args(false);
  };
  CLI::App* sample = program.add_subcommand("sample", "Let a trained model continue a text");
  add_source(*sample);
  app::SampleCommand sampling;
  sample->add_option("--prompt", sampling.prompt,
                     "The text; - reads it from standard input; empty: a new text");
  app::GenerateOptions& generating = sampling.generate;
  sample->add_option("--tokens", generating.tokens, "How many tokens to add")
      ->check(CLI::Range(int64_t{0}, int64_t{1'000'000'000}))
      ->capture_default_str();
  sample
      ->add_option("--temperature", generating.sampling.temperature,
                   "Divides the logits; 0: always the likeliest token")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  sample->add_option("--top-k", generating.sampling.top_k, "Draw among the k likeliest; 0: all")
      ->check(CLI::Range(int64_t{0}, int64_t{1'000'000'000}))
      ->capture_default_str();
  sample
      ->add_option("--top-p", generating.sampling.top_p,
                   "Of those, draw among the likeliest that reach this probability")
      ->check(CLI::Range(1e-9, 1.0))
      ->capture_default_str();
  sample->add_option("--seed", generating.sampling.seed, "The same seed gives the same text")
      ->capture_default_str();
  sample->add_flag("!--no-cache", generating.use_cache,
                   "Compute all again for each token, without a key-value cache: to compare");
  CLI::App* eval =
      program.add_subcommand("eval", "Mean loss and perplexity of a trained model on texts");
  add_source(*eval);
  std::vector<std::string> files;
  eval->add_option("FILE", files, "Texts or llm.c .bin shards, one after the other")->required();
  CLI::App* exporting = program.add_subcommand(
      "export", "Write a checkpoint's weights for Hugging Face's transformers");
  exporting->add_option("CHECKPOINT", checkpoint_path, "A run's folder, or a checkpoint's")
      ->required();
  std::filesystem::path exported;
  exporting
      ->add_option("-o,--output", exported,
                   "A file.safetensors, or a folder for from_pretrained: model.safetensors and "
                   "config.json")
      ->required();
  std::string export_dtype = "fp32";
  exporting->add_option("--dtype", export_dtype, "Type of the elements")
      ->check(CLI::IsMember({"fp32", "bf16"}))
      ->capture_default_str();
  CLI::App* devices =
      program.add_subcommand("devices", "List what launch.device can name on this machine");

  CLI::App* prepare = program.add_subcommand(
      "prepare", "Turn texts into tokens: llm.c .bin shards, which data.path takes");
  app::PrepareOptions preparing;
  prepare
      ->add_option("INPUT", preparing.inputs,
                   "Text files or glob patterns, in this order; - alone: standard input")
      ->required();
  prepare->add_option("-o,--output", preparing.out, "Folder for the shards")->required();
  prepare->add_option("--tokenizer", preparing.tokenizer, "What a token is, as data.tokenizer")
      ->check(CLI::IsMember({"gpt2", "byte", "char"}))
      ->capture_default_str();
  prepare->add_option("--vocab", preparing.vocab, "Folder of gpt2's vocabulary, as data.vocab");
  preparing.threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  prepare->add_option("--threads", preparing.threads, "Threads that encode")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  prepare->add_option("--shard-tokens", preparing.shard_tokens, "Tokens of a shard")
      ->check(CLI::Range(int64_t{1}, int64_t{std::numeric_limits<int32_t>::max()}))
      ->capture_default_str();
  prepare->add_flag("--resume", preparing.resume, "Go on where a stopped or killed one was");

  train_file->required(false);  // a checkpoint has its own
  try {
    program.parse(argc, argv);
    if (*train && file.empty() && resume.empty()) {
      throw CLI::RequiredError("CONFIG (or --resume)");
    }
  } catch (const CLI::ParseError& error) {
    // 0 for --help and --version
    return program.exit(error) == 0 ? 0 : 2;
  }
  try {
    if (*devices) {
      app::devices_command();
      return 0;
    }
    if (*plan) {
      overrides.insert(overrides.end(), settings.begin(), settings.end());
      return check ? app::plan_check_command(app::load_config(file, overrides), planning)
                   : app::plan_command(app::plan_configs(file, overrides, models), planning);
    }
    if (*report) {
      app::write_report(runs, page);
      return 0;
    }
    if (*checkpoint) {
      *verify ? app::verify_checkpoint(checkpoint_path)
      : *show ? app::show_checkpoint(checkpoint_path)
              : app::list_checkpoints(checkpoint_path);
      return 0;
    }
    if (*sample) {
      app::sample_command(source, sampling);
      return 0;
    }
    if (*eval) {
      app::eval_command(source, files);
      return 0;
    }
    if (*exporting) {
      app::export_command(checkpoint_path, exported, export_dtype);
      return 0;
    }
    std::signal(SIGINT, request_stop);
    std::signal(SIGTERM, request_stop);
    if (*prepare) {
      return app::prepare_command(preparing, stop_requested);
    }
    if (*train && !resume.empty()) {
      return app::resume_command(resume, file, overrides, stop_requested);
    }
    const app::RunConfig config = app::load_config(file, overrides);
    if (*train) {
      return app::train_command(config, stop_requested);
    }
    const std::vector<app::Variant> columns = !precisions.empty()
                                                  ? app::precision_variants(precisions)
                                              : variants ? app::reduction_variants()
                                                         : app::stage_variants(stages);
    return app::compare_command(config, app::configs_of(file, overrides, columns), stop_requested);
  } catch (const ConfigError& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
