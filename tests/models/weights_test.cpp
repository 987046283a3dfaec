#include "models/weights.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <limits>

#include "framework/core/error.h"
#include "models/gpt.h"
#include "tests/framework/file/written_safetensors.h"
#include "tests/framework/test_rank.h"

namespace zerolab {
namespace {

using test::bytes_of;
using Weights = test::WrittenSafetensors;

/// The records of a file that is being written.
struct Writer {
  void add(const std::string& name, const std::vector<int64_t>& shape,
           const std::vector<float>& values) {
    const size_t begin = data.size();
    data += bytes_of(values);
    header +=
        fmt::format(R"({}"{}":{{"dtype":"F32","shape":[{}],"data_offsets":[{},{}]}})",
                    header.empty() ? "" : ",", name, fmt::join(shape, ","), begin, data.size());
  }
  std::string header;
  std::string data;
};

TEST_F(Weights, LoadsAGptUnderEitherNaming) {
  const GptConfig config{.n_layer = 1, .n_head = 1, .n_embd = 2, .block_size = 3, .vocab_size = 5};
  for (const std::string prefix : {"", "transformer."}) {
    TestRank rank;
    const Gpt source({rank.context, 1, DType::kFloat32, ""}, config);
    const Gpt target({rank.context, 2, DType::kFloat32, ""}, config);
    Writer writer;
    for (const Parameter* parameter : source.parameters()) {
      std::vector<int64_t> shape;
      for (int axis = 0; axis < parameter->shape().rank(); ++axis) {
        shape.push_back(parameter->shape()[axis]);
      }
      writer.add(prefix + parameter->name(), shape, parameter->value().to_host<float>());
    }
    writer.add(prefix + "h.0.attn.bias", {1, 1, 1, 1}, {1});
    writer.add("lm_head.weight", {5, 2}, source.parameters()[0]->value().to_host<float>());
    write("{" + writer.header + "}", writer.data);
    load_weights(path(), target.parameters());
    for (size_t i = 0; i < source.parameters().size(); ++i) {
      EXPECT_EQ(target.parameters()[i]->value().to_host<float>(),
                source.parameters()[i]->value().to_host<float>());
    }
  }
}

TEST_F(Weights, RoundsInto16BitParameters) {
  write(R"({"w":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})",
        bytes_of({1 + 0x1p-8F, 1 + 0x1p-11F, -0.5F, 1e5F}));
  TestRank rank;
  Parameter narrow("w", rank.normal({4}, DType::kBFloat16, "w"));
  load_weights(path(), {&narrow});
  EXPECT_EQ(rank.numbers(narrow.value()), (std::vector<double>{1, 1, -0.5, 99840}));
  Parameter half("w", rank.normal({4}, DType::kFloat16, "w"));
  load_weights(path(), {&half});
  EXPECT_EQ(rank.numbers(half.value()),
            (std::vector<double>{1 + 0x1p-8, 1, -0.5, std::numeric_limits<double>::infinity()}));
}

TEST_F(Weights, RefusesWeightsOfAnotherModel) {
  TestRank rank;
  Parameter w("w", rank.tensor<float>({1, 2}, {7, 8}));
  const auto message_of = [&](const std::string& header) {
    write(header, bytes_of({1, 2}));
    try {
      load_weights(path(), {&w});
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  const std::string record = R"({"dtype":"F32","shape":[1,2],"data_offsets":[0,8]})";
  EXPECT_NE(message_of(R"({"v":)" + record + "}").find("parameter 'w'"), std::string::npos);
  EXPECT_NE(message_of(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})")
                .find("got [2], expected [1, 2]"),
            std::string::npos);
  EXPECT_NE(message_of(R"({"w":{"dtype":"I32","shape":[1,2],"data_offsets":[0,8]}})")
                .find("expected F32"),
            std::string::npos);
  EXPECT_NE(
      message_of(R"({"w":)" + record + R"(,"v":{"dtype":"F32","shape":[0],"data_offsets":[8,8]}})")
          .find("record 'v'"),
      std::string::npos);
  EXPECT_EQ(w.value().to_host<float>(), (std::vector<float>{7, 8}));
  EXPECT_EQ(message_of(R"({"w":)" + record + "}"), "accepted");
  EXPECT_EQ(w.value().to_host<float>(), (std::vector<float>{1, 2}));
}

}  // namespace
}  // namespace zerolab
