#pragma once

#include <map>

#include "framework/file/tensor_file.h"

namespace zerolab {

/// The weights of a GPT-2 in llm.c's format (Karpathy; what its train_gpt2.py writes): a header of
/// 256 int32, then tensors one after another, each for all layers. Version 3 is fp32, 5 is bf16.
/// Names and shapes are given as Hugging Face has them: matrices, [out, in] in the file, as
/// [in, out], and the embedding without the rows that pad the vocabulary.
class LlmcFile final : public TensorFile {
 public:
  /// Whether the file begins as one; false where it cannot be read.
  static bool recognises(const std::string& path);

  /// Throws `Error` unless header and size agree.
  explicit LlmcFile(const std::string& path);
  std::vector<std::string> names() const override;
  std::vector<int64_t> shape_of(const std::string& name) const override;
  void read_range(const std::string& name, int64_t begin, std::span<float> out) override;
  int64_t property(std::string_view name) const override { return name == "n_head" ? n_head_ : 0; }

 private:
  struct Record {
    int64_t offset = 0;  ///< in the file
    std::vector<int64_t> shape;
    bool transposed = false;  ///< with regard to the file
  };
  const Record& record_of(const std::string& name) const;
  void transpose(const std::string& name, const Record& record);

  DType dtype_ = DType::kFloat32;
  int64_t n_head_ = 0;
  std::map<std::string, Record> records_;
  std::string transposed_name_;  ///< of what `transposed_` holds
  std::vector<float> transposed_;
};

}  // namespace zerolab
