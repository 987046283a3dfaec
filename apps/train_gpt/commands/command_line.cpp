#include "apps/train_gpt/commands/command_line.h"

#include <fmt/core.h>

#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>
#include <memory>
#include <thread>

#include "apps/train_gpt/commands/commands.h"
#include "apps/train_gpt/commands/plan_command.h"
#include "apps/train_gpt/commands/prepare_command.h"
#include "apps/train_gpt/report/compare_variants.h"
#include "apps/train_gpt/setup/resolve_config.h"

namespace zerolab::app {
namespace {

// Each function's options live as long as the command that it returns.

/// The options that name a configuration.
struct ConfigOptions {
  std::string file;
  std::vector<std::string> overrides;

  CLI::Option* add_to(CLI::App& line) {
    CLI::Option* const option = line.add_option("CONFIG", file, "TOML file")->required();
    line.add_option("--set", overrides,
                    "section.key=value, over what the file says; may be repeated")
        ->allow_extra_args(false);
    return option;
  }
};

Command add_train(CLI::App& program, const std::atomic<bool>& stop) {
  struct Options {
    ConfigOptions config;
    std::string resume;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* line = program.add_subcommand("train", "Train one run");
  options->config.add_to(*line)->required(false);  // a checkpoint has its own
  line->add_option("--resume", options->resume,
                   "Go on from a checkpoint: \"latest\" of the run that CONFIG names, or a path; "
                   "without CONFIG with the configuration that the checkpoint holds");
  line->callback([options] {
    if (options->config.file.empty() && options->resume.empty()) {
      throw CLI::RequiredError("CONFIG (or --resume)");
    }
  });
  return {line,
          [options, &stop] {
            const auto& [file, overrides] = options->config;
            return options->resume.empty() ? train_command(load_config(file, overrides), stop)
                                           : resume_command(options->resume, file, overrides, stop);
          },
          true};
}

Command add_compare(CLI::App& program, const std::atomic<bool>& stop) {
  struct Options {
    ConfigOptions config;
    std::vector<int> stages{zero::kStages.begin(), zero::kStages.end()};
    bool variants = false;
    std::vector<std::string> precisions;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* line =
      program.add_subcommand("compare", "Train once a variant and set them side by side");
  options->config.add_to(*line);
  CLI::Option* stages = line->add_option("--stages", options->stages, "Stages to compare")
                            ->delimiter(',')
                            ->allow_extra_args(false)
                            ->check(CLI::Range(0, 2));
  line->add_flag("--variants", options->variants,
                 "Compare ways to reduce gradients instead: DDP, the first ZeRO-1 (all-reduce), "
                 "and ZeRO-1 and ZeRO-2 with a reduction to each owner and with a reduce-scatter")
      ->excludes(stages);
  line->add_option("--precisions", options->precisions,
                   "Compare precisions instead, under the configuration's stage: "
                   "fp32,tf32,bf16,fp16")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember({"fp32", "tf32", "bf16", "fp16"}))
      ->excludes(stages)
      ->excludes("--variants");
  return {line,
          [options, &stop] {
            const auto& [file, overrides] = options->config;
            const std::vector<Variant> columns =
                !options->precisions.empty() ? precision_variants(options->precisions)
                : options->variants          ? reduction_variants()
                                             : stage_variants(options->stages);
            return compare_command(load_config(file, overrides),
                                   configs_of(file, overrides, columns), stop);
          },
          true};
}

std::string positive(const std::string& text) {
  double number = 0.0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number > 0.0 && std::isfinite(number) ? std::string()
                                               : "got " + text + ", expected a positive number";
}

Command add_plan(CLI::App& program) {
  struct Options {
    ConfigOptions config;
    PlanOptions plan;
    std::vector<std::string> models;
    bool check = false;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* line = program.add_subcommand(
      "plan", "Predict memory, communication and time of a step for any number of ranks");
  options->config.add_to(*line);
  PlanOptions& plan = options->plan;
  line->add_option("--ranks", plan.ranks,
                   "Numbers of ranks, such as 8,64,1024; without it launch.ranks")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(1, 100'000));
  line->add_option("--stages", plan.stages, "Stages to plan")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(0, 2));
  line->add_option("--model", options->models,
                   "Plan another model too: keys of [model] over the file's, such as "
                   "n_layer=48,n_embd=1600; may be repeated")
      ->allow_extra_args(false);
  const auto add_setting = [&](const std::string& name, const std::string& key,
                               const std::string& help) {
    line->add_option_function<std::string>(
        name,
        [options, key](const std::string& value) {
          options->config.overrides.push_back(key + "=" + value);
        },
        fmt::format("{}; short for --set {}=…", help, key));
  };
  add_setting("--link", "comm.bandwidth_gbps", "Gbit/s of a rank's link in each direction");
  add_setting("--latency-us", "comm.latency_us", "Microseconds a round of a collective");
  add_setting("--memory", "launch.memory_limit", "Memory of a rank, such as 80GiB");
  const CLI::Validator is_positive(positive, "POSITIVE");
  line->add_option("--tflops", plan.tflops,
                   "TFLOP/s that a rank reaches in matrix products; without it they are measured "
                   "here, with the memory's bandwidth")
      ->check(is_positive);
  line->add_option("--memory-bandwidth", plan.memory_bandwidth_gbps,
                   "GB/s that a rank reads and writes in its memory; with --tflops alone memory "
                   "takes no time")
      ->check(is_positive);
  CLI::Option* map = line->add_flag(
      "--map", plan.map, "Print the layout: which rank owns which range of which parameter");
  CLI::Option* json =
      line->add_option("--json", plan.json, "Write the result to this file as well");
  line->add_flag("--check", options->check,
                 "Run a few steps under each stage here and set them beside the plan; a byte that "
                 "differs is an error")
      ->excludes("--ranks")
      ->excludes("--model")
      ->excludes(map)
      ->excludes(json);
  return {line, [options] {
            const auto& [file, overrides] = options->config;
            return options->check ? plan_check_command(load_config(file, overrides), options->plan)
                                  : plan_command(plan_configs(file, overrides, options->models),
                                                 options->plan);
          }};
}

Command add_report(CLI::App& program) {
  struct Options {
    std::vector<std::filesystem::path> runs;
    std::filesystem::path page = "report.html";
  };
  const auto options = std::make_shared<Options>();
  CLI::App* line = program.add_subcommand(
      "report", "Show what runs have logged as one HTML page, which works offline");
  line->add_option("RUN", options->runs, "Folders of runs, or their metrics.jsonl")->required();
  line->add_option("-o,--output", options->page, "The page")->capture_default_str();
  return {line, [options] {
            write_report(options->runs, options->page);
            return 0;
          }};
}

Command add_checkpoint(CLI::App& program) {
  const auto path = std::make_shared<std::filesystem::path>();
  CLI::App* line = program.add_subcommand(
      "checkpoint", "Look at checkpoints: of a run's folder, or one by its path");
  line->require_subcommand(1);
  const auto add = [&](const std::string& name, const std::string& help) {
    CLI::App* const look = line->add_subcommand(name, help);
    look->add_option("PATH", *path, "A run's folder, or a checkpoint's")->required();
    return look;
  };
  CLI::App* verify = add("verify", "Read all of the newest, and find what is damaged");
  CLI::App* show = add("show", "Print what the newest holds, and its configuration");
  add("list", "Print a line for each");
  return {line, [path, verify, show] {
            (*verify ? verify_checkpoint : *show ? show_checkpoint : list_checkpoints)(*path);
            return 0;
          }};
}

/// Which model `sample` and `eval` use.
void add_source(CLI::App& line, SavedModel::Source& source) {
  CLI::Option_group* group = line.add_option_group("model", "Which model, one of");
  group->add_option("--checkpoint", source.checkpoint,
                    "A checkpoint, or a run's folder for its latest");
  group->add_option("--config", source.config, "TOML file whose model.init_from has the weights");
  group->require_option(1);
  line.add_option("--set", source.overrides,
                  "section.key=value, over what was saved or the file says; may be repeated")
      ->allow_extra_args(false);
}

Command add_sample(CLI::App& program) {
  struct Options {
    SavedModel::Source source;
    SampleCommand sample;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* line = program.add_subcommand("sample", "Let a trained model continue a text");
  add_source(*line, options->source);
  line->add_option("--prompt", options->sample.prompt,
                   "The text; - reads it from standard input; empty: a new text");
  GenerateOptions& generate = options->sample.generate;
  line->add_option("--tokens", generate.tokens, "How many tokens to add")
      ->check(CLI::Range(int64_t{0}, int64_t{1'000'000'000}))
      ->capture_default_str();
  line->add_option("--temperature", generate.sampling.temperature,
                   "Divides the logits; 0: always the likeliest token")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  line->add_option("--top-k", generate.sampling.top_k, "Draw among the k likeliest; 0: all")
      ->check(CLI::Range(int64_t{0}, int64_t{1'000'000'000}))
      ->capture_default_str();
  line->add_option("--top-p", generate.sampling.top_p,
                   "Of those, draw among the likeliest that reach this probability")
      ->check(CLI::Range(1e-9, 1.0))
      ->capture_default_str();
  line->add_option("--seed", generate.sampling.seed, "The same seed gives the same text")
      ->capture_default_str();
  line->add_flag("!--no-cache", generate.use_cache,
                 "Compute all again for each token, without a key-value cache: to compare");
  return {line, [options] {
            sample_command(options->source, options->sample);
            return 0;
          }};
}

Command add_eval(CLI::App& program) {
  struct Options {
    SavedModel::Source source;
    std::vector<std::string> files;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* line =
      program.add_subcommand("eval", "Mean loss and perplexity of a trained model on texts");
  add_source(*line, options->source);
  line->add_option("FILE", options->files, "Texts or llm.c .bin shards, one after the other")
      ->required();
  return {line, [options] {
            eval_command(options->source, options->files);
            return 0;
          }};
}

Command add_export(CLI::App& program) {
  struct Options {
    std::filesystem::path checkpoint;
    std::filesystem::path output;
    std::string dtype = "fp32";
  };
  const auto options = std::make_shared<Options>();
  CLI::App* line = program.add_subcommand(
      "export", "Write a checkpoint's weights for Hugging Face's transformers");
  line->add_option("CHECKPOINT", options->checkpoint, "A run's folder, or a checkpoint's")
      ->required();
  line->add_option("-o,--output", options->output,
                   "A file.safetensors, or a folder for from_pretrained: model.safetensors and "
                   "config.json")
      ->required();
  line->add_option("--dtype", options->dtype, "Type of the elements")
      ->check(CLI::IsMember({"fp32", "bf16"}))
      ->capture_default_str();
  return {line, [options] {
            export_command(options->checkpoint, options->output, options->dtype);
            return 0;
          }};
}

Command add_prepare(CLI::App& program, const std::atomic<bool>& stop) {
  const auto options = std::make_shared<PrepareOptions>();
  CLI::App* line = program.add_subcommand(
      "prepare", "Turn texts into tokens: llm.c .bin shards, which data.path takes");
  line->add_option("INPUT", options->inputs,
                   "Text files or glob patterns, in this order; - alone: standard input")
      ->required();
  line->add_option("-o,--output", options->out, "Folder for the shards")->required();
  line->add_option("--tokenizer", options->tokenizer, "What a token is, as data.tokenizer")
      ->check(CLI::IsMember({"gpt2", "byte", "char"}))
      ->capture_default_str();
  line->add_option("--vocab", options->vocab, "Folder of gpt2's vocabulary, as data.vocab");
  options->threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  line->add_option("--threads", options->threads, "Threads that encode")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  line->add_option("--shard-tokens", options->shard_tokens, "Tokens of a shard")
      ->check(CLI::Range(int64_t{1}, int64_t{std::numeric_limits<int32_t>::max()}))
      ->capture_default_str();
  line->add_flag("--resume", options->resume, "Go on where a stopped or killed one was");
  return {line, [options, &stop] { return prepare_command(*options, stop); }, true};
}

Command add_devices(CLI::App& program) {
  return {program.add_subcommand("devices", "List what launch.device can name on this machine"),
          [] {
            devices_command();
            return 0;
          }};
}

}  // namespace

std::vector<Command> add_commands(CLI::App& program, const std::atomic<bool>& stop) {
  return {add_train(program, stop), add_compare(program, stop), add_plan(program),
          add_report(program),      add_checkpoint(program),    add_sample(program),
          add_eval(program),        add_export(program),        add_prepare(program, stop),
          add_devices(program)};
}

}  // namespace zerolab::app
