// SPDX-License-Identifier: Apache-2.0
#include "export/model_folder.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/thread_pool.h"
#include "checkpoint/hf_folder.h"
#include "checkpoint/testing.h"
#include "export/weights_digest.h"
#include "test_main.h"

namespace zaya {

namespace {

std::string fixture(const std::string& name) { return std::string(ZAYA_TEST_DATA) + "/" + name; }

// A copy of a fixture whose tensors can be changed before it is written.
struct Copy {
  explicit Copy(const std::string& name) : original(fixture(name)) {
    for (const SafetensorsFile& file : original.files()) {
      for (const SafetensorsEntry& entry : file.entries()) tensors.push_back(file.tensor(entry));
    }
    write_text(folder / "config.json", read_file(fixture(name) + "/config.json"));
  }
  StoredTensor& at(const std::string& name) {
    return *std::find_if(tensors.begin(), tensors.end(),
                         [&](const StoredTensor& t) { return t.spec.name == name; });
  }
  void drop(const std::string& name) {
    std::erase_if(tensors, [&](const StoredTensor& t) { return t.spec.name == name; });
  }
  // What opening it says.
  std::string complaint() {
    write_safetensors(folder / "model.safetensors", tensors, {{"format", "pt"}});
    const Backend backend = make_ref_backend(Numerics::f32);
    const std::string message =
        error_of(ErrorKind::damaged, [&] { open_model(folder.path(), backend, {}); });
    // Training opens a folder in another way and must say the same.
    ParamSet params;
    const Model model(model_config_of_folder(folder.path()), params);
    Arena arena("weights", Index{64} << 20);
    params.bind_for_training(arena, backend);
    CHECK(message ==
          error_of(ErrorKind::damaged, [&] { load_weights_of_folder(folder.path(), params); }));
    return message;
  }

  TestFolder folder;
  HfFolder original;
  std::vector<StoredTensor> tensors;
};

constexpr char kNorm[] = "model.layers.0.input_layernorm.weight";

}  // namespace

TEST_CASE("a missing tensor is named with the shape that is expected") {
  Copy copy("zaya/kernels");
  copy.drop(kNorm);
  CHECK(copy.complaint() == copy.folder.path() +
                                ": 1 tensor is wrong for this model: "
                                "\"model.layers.0.input_layernorm.weight\" (expected [40], "
                                "missing)");
}

TEST_CASE("a misshapen tensor is named with both shapes") {
  Copy copy("zaya/kernels");
  copy.at(kNorm).spec.shape = {20, 2};
  CHECK(copy.complaint().ends_with(
      "\"model.layers.0.input_layernorm.weight\" (expected [40], found F32 [20, 2])"));
}

TEST_CASE("a tensor of integers is named with its type") {
  Copy copy("zaya/kernels");
  copy.at(kNorm).spec.type = StorageType::i32;
  CHECK(copy.complaint().ends_with("(expected floating-point values, found I32 [40])"));
}

TEST_CASE("a tensor that no model of this shape has is named") {
  Copy copy("zaya/basic");
  copy.tensors.push_back(copy.at(kNorm));
  copy.tensors.back().spec.name = "model.layers.9.input_layernorm.weight";
  CHECK(copy.complaint().ends_with(
      "\"model.layers.9.input_layernorm.weight\" (not part of the model)"));
}

TEST_CASE("all faults of a folder are said at once") {
  Copy copy("zaya/kernels");
  copy.drop(kNorm);
  copy.at("lm_head.weight").spec.shape = {40, 128};
  copy.at("model.norm.weight").spec.name = "model.final.weight";
  const std::string message = copy.complaint();
  CHECK(message.find(": 4 tensors are wrong for this model: ") != std::string::npos);
  for (const char* part : {"\"model.layers.0.input_layernorm.weight\" (expected [40], missing)",
                           "\"model.norm.weight\" (expected [40], missing)",
                           "\"lm_head.weight\" (expected [128, 40], found F32 [40, 128])",
                           "\"model.final.weight\" (not part of the model)"}) {
    CAPTURE(part);
    CHECK(message.find(part) != std::string::npos);
  }
  CHECK(message.find('\n') == std::string::npos);
}

TEST_CASE("of very many faults the first are listed and the others counted") {
  Copy copy("zaya/basic");
  const std::size_t count = copy.tensors.size();
  for (StoredTensor& tensor : copy.tensors) tensor.spec.name += "x";
  const std::string message = copy.complaint();
  CHECK(message.find(std::to_string(2 * count) + " tensors are wrong") != std::string::npos);
  CHECK(message.ends_with("; and " + std::to_string(2 * count - 16) + " more"));
}

TEST_CASE("an untied model needs its head, a tied one may store it") {
  Copy untied("zaya/kernels");
  untied.drop("lm_head.weight");
  CHECK(untied.complaint().ends_with("\"lm_head.weight\" (expected [128, 40], missing)"));
  Copy tied("zaya/basic");
  tied.tensors.push_back(tied.at("model.embed_tokens.weight"));
  tied.tensors.back().spec.name = "lm_head.weight";
  CHECK(tied.complaint().empty());
}

TEST_CASE("legacy folders are checked expert by expert") {
  constexpr char kExpert[] = "model.layers.3.zaya_block.experts.local_experts.4.linear_fc1.weight";
  Copy copy("zaya-legacy/basic-lists");
  copy.at(kExpert).spec.shape = {96, 80};
  CHECK(copy.complaint().ends_with(std::string(kExpert) +
                                   "\" (expected [80, 96], found F32 [96, 80])"));
  copy.drop(kExpert);
  CHECK(copy.complaint().ends_with("(expected [80, 96], missing)"));
}

TEST_CASE("folders that are no model are refused with a reason") {
  const TestFolder folder;
  const Backend backend = make_ref_backend(Numerics::f32);
  const auto complaint = [&](const std::string& path) {
    return error_of(ErrorKind::usage, [&] { open_model(path, backend, {}); });
  };
  CHECK(complaint(folder / "absent")
            .ends_with("no such folder; give a checkpoint, a run folder or a model folder"));
  CHECK(complaint(folder.path()).ends_with("holds neither a checkpoint nor a published model"));
  write_text(folder / "config.json", read_file(fixture("zaya/basic/config.json")));
  CHECK(complaint(folder.path()).ends_with("holds no .safetensors file"));
}

TEST_CASE("a configuration that states absurd sizes is refused before anything is made") {
  const Json original = Json::parse(read_file(fixture("zaya/basic/config.json")), "config");
  const Backend backend = make_ref_backend(Numerics::f32);
  const TestFolder folder;
  write_text(folder / "model.safetensors", read_file(fixture("zaya/basic/model.safetensors")));
  const auto complaint = [&](ErrorKind kind, const char* key, Index value) {
    Json config = original;
    config.set("layer_types", Json());
    config.set(key, value);
    write_text(folder / "config.json", config.dump());
    return error_of(kind, [&] { open_model(folder.path(), backend, {}); });
  };
  CHECK(complaint(ErrorKind::damaged, "num_hidden_layers", 100000)
            .ends_with("config.json states 100000 blocks, but the files hold only 99 tensors"));
  CHECK(complaint(ErrorKind::usage, "num_hidden_layers", Index{1} << 62) != "");
  CHECK(complaint(ErrorKind::usage, "hidden_size", -1) != "");
  CHECK(complaint(ErrorKind::damaged, "moe_intermediate_size", 1 << 24).find("wrong for") !=
        std::string::npos);
  Json config = original;
  config.set("num_experts", 65536);
  config.set("moe_intermediate_size", 1 << 24);
  config.set("hidden_size", 1 << 24);
  write_text(folder / "config.json", config.dump());
  CHECK(error_of(ErrorKind::usage, [&] {
          open_model(folder.path(), backend, {});
        }).ends_with("is more than any machine holds"));
}

TEST_CASE("single files and shards, every float type and both layouts give the same weights") {
  ThreadPool pool(2);
  const auto digest = [&](const std::string& path) {
    return weights_digest(find_model(path), pool);
  };
  CHECK(digest(fixture("zaya-legacy/basic-lists")) == digest(fixture("zaya/basic")));
  CHECK(digest(fixture("zaya-legacy/sliding-scalar")) == digest(fixture("zaya/sliding")));
  CHECK(digest(fixture("zaya/basic")) != digest(fixture("zaya/sliding")));
  // The values of a bf16 folder as f32 and f64: other bytes, the same weights.
  Copy copy("zaya/bf16");
  std::vector<std::vector<double>> wide(copy.tensors.size());
  for (std::size_t i = 0; i < copy.tensors.size(); ++i) {
    StoredTensor& tensor = copy.tensors[i];
    const Index count = static_cast<Index>(element_count(tensor.spec));
    wide[i].resize(static_cast<std::size_t>(count));
    const DType dtype = i % 2 == 0 ? DType::f32 : DType::f64;
    const Tensor out(reinterpret_cast<std::byte*>(wide[i].data()), dtype, {count});
    convert_elements(tensor.spec.type, tensor.bytes, out);
    tensor.spec.type = storage_type_of(dtype);
    tensor.bytes = {out.data(), static_cast<std::size_t>(out.num_bytes())};
  }
  CHECK(copy.complaint().empty());
  CHECK(digest(copy.folder.path()) == digest(fixture("zaya/bf16")));
}

TEST_CASE("bf16 weights of a native folder are used where they lie") {
  ThreadPool pool(1);
  const Backend backend =
      make_cpu_backend(Numerics::bf16, pool, parse_instruction_set(test_instruction_set()));
  const ModelOrigin source = find_model(fixture("zaya/bf16"));
  OpenOptions options;
  options.max_positions = 8;
  const OpenModel open = open_model(source, backend, options);
  Index num_mapped = 0;
  for (const Param& param : open.params->all()) {
    if (param.rule.weight_type != WeightType::compute) continue;
    CAPTURE(param.name);
    CHECK(source.weights->mapped(param, DType::bf16)->data() == param.weight.data());
    num_mapped += param.weight.num_bytes();
  }
  CHECK(bytes_to_open(source, backend, options) < num_mapped / 4);
  CHECK(open.run->used() <= bytes_to_open(source, backend, options));
  CHECK(open.skip_reason == "native layout");
}

}  // namespace zaya
