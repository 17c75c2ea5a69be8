// SPDX-License-Identifier: Apache-2.0
#include "export/hf_write.h"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/fault_point.h"
#include "base/file.h"
#include "base/thread_pool.h"
#include "checkpoint/hf_folder.h"
#include "checkpoint/publish.h"
#include "checkpoint/testing.h"
#include "export/proof.h"
#include "export/weights_digest.h"
#include "test_main.h"

namespace zaya {

namespace {

constexpr Layout kLayouts[] = {Layout::native, Layout::legacy};

std::string fixture(const std::string& name) { return std::string(ZAYA_TEST_DATA) + "/" + name; }

// The pool and a folder to export into.
struct Bench {
  std::string out() const { return folder / "out"; }
  Backend backend(DType dtype) {
    return make_cpu_backend(dtype == DType::bf16 ? Numerics::bf16 : Numerics::f32, pool,
                            parse_instruction_set(test_instruction_set()));
  }
  // Exports with proof, over an earlier export.
  ExportResult run(const ModelOrigin& source, Layout layout, DType dtype,
                   Index max_shard_bytes = 5'000'000'000) {
    remove_all(out());
    ExportOptions options;
    options.output = out();
    options.layout = layout;
    options.dtype = dtype;
    options.max_shard_bytes = max_shard_bytes;
    const Backend own = backend(dtype);
    return export_model(source, &own, options);
  }
  std::string digest(const std::string& path) { return weights_digest(find_model(path), pool); }
  // Nothing of a failed export stays.
  bool is_clean() const { return list_directory(folder.path()).empty(); }

  TestFolder folder;
  ThreadPool pool{2};
};

// Are the tensors of both folders the same, byte for byte?
void check_same_tensors(const std::string& a, const std::string& b) {
  const HfFolder first(a), second(b);
  REQUIRE(first.names() == second.names());
  for (const std::string& name : first.names()) {
    CAPTURE(name);
    const StoredTensor x = first.tensor(name), y = second.tensor(name);
    CHECK(x.spec == y.spec);
    CHECK(std::equal(x.bytes.begin(), x.bytes.end(), y.bytes.begin(), y.bytes.end()));
  }
}

// A model with weights off their start values, as a checkpoint of step 3 below `folder`.
std::string write_checkpoint(const std::string& folder, ModelConfig config) {
  const Backend backend = make_ref_backend(Numerics::f32);
  Arena arena("weights", Index{64} << 20);
  ParamSet params;
  const Model model(config, params);
  params.bind_for_training(arena, backend);
  params.initialize(11);
  model.reset_balancing();
  Json keys = Json::object(), run_state = Json::object();
  const FieldList fields = list_fields(config);
  for (const Field& field : fields.fields()) {
    keys.set("model." + field.name(), field.value());
  }
  run_state.set("configuration", std::move(keys));
  std::vector<NamedTensor> tensors;
  for (const Param& param : params.all()) {
    if (param.init.kind == Init::Kind::constant) {
      param.master.as<float, 1>()[0] += 0.1f * static_cast<float>(tensors.size());
    }
    tensors.push_back({param.name, param.master});
  }
  // What optimizers keep is no part of a model.
  tensors.push_back({"optimizer.moment", params.all().front().master});
  PublishArgs args;
  args.folder = folder;
  args.step = 3;
  args.tensors = tensors;
  args.run_state = &run_state;
  return publish_checkpoint(args).path;
}

ModelConfig odd_config() {
  ModelConfig config = model_preset("tiny");
  config.attention_bias = config.lm_head_bias = true;
  config.tie_word_embeddings = false;
  config.cca_time0 = 3;
  config.layer_types = {"hybrid_sliding", "hybrid"};
  config.sliding_window = 5;
  config.num_experts = 12;  // names of experts beyond 9 sort before 2
  config.router_norm_eps = 1e-6;
  return config;
}

}  // namespace

TEST_CASE("published folders come out as they went in, byte for byte") {
  Bench bench;
  const std::pair<const char*, const char*> twins[] = {
      {"zaya/basic", "zaya-legacy/basic-lists"}, {"zaya/sliding", "zaya-legacy/sliding-scalar"}};
  for (const auto& [native, legacy] : twins) {
    for (const Layout layout : kLayouts) {
      const char* from = layout == Layout::native ? legacy : native;
      const char* expected = layout == Layout::native ? native : legacy;
      for (const char* name : {from, expected}) {
        CAPTURE(name);
        const ExportResult result = bench.run(find_model(fixture(name)), layout, DType::f32);
        CHECK(result.max_deviation == 0.0);
        check_same_tensors(bench.out(), fixture(expected));
      }
    }
  }
  for (const std::string name : {"zaya/kernels", "zaya/bf16"}) {
    CAPTURE(name);
    const ModelOrigin source = find_model(fixture(name));
    CHECK(stored_dtype(source) == (name == "zaya/bf16" ? DType::bf16 : DType::f32));
    CHECK(bench.run(source, Layout::native, stored_dtype(source)).max_deviation == 0.0);
    check_same_tensors(bench.out(), fixture(name));
  }
}

TEST_CASE("a checkpoint, its exports and exports of these have the same weights") {
  Bench bench;
  const TestFolder runs;
  for (const ModelConfig& config : {model_preset("tiny"), odd_config()}) {
    remove_all(runs / "step-00000003");
    const std::string checkpoint = write_checkpoint(runs.path(), config);
    const std::string expected = bench.digest(checkpoint);
    for (const Layout layout : kLayouts) {
      CAPTURE(name_of(layout));
      CHECK(bench.run(find_model(checkpoint), layout, DType::f32).max_deviation == 0.0);
      CHECK(bench.digest(bench.out()) == expected);
      ModelConfig read = model_config_of_folder(bench.out());
      read.preset = config.preset;
      CHECK(read == config);
      // Imported as a run does it, and published again.
      const TestFolder second;
      const ModelOrigin imported = find_model(bench.out());
      Arena arena("weights", Index{64} << 20);
      ParamSet params, original;
      const Model model(imported.config, params), twin(imported.config, original);
      const Backend backend = make_ref_backend(Numerics::f32);
      params.bind_for_training(arena, backend);
      original.bind_for_training(arena, backend);
      load_weights_of_folder(bench.out(), params);
      load_weights_of_folder(checkpoint, original);
      for (const Param& param : params.all()) {
        CAPTURE(param.name);
        CHECK(std::memcmp(param.master.data(), original.find(param.name)->master.data(),
                          static_cast<std::size_t>(param.master.num_bytes())) == 0);
      }
    }
  }
}

TEST_CASE("a bf16 export holds rounded values, with balancing biases in f32") {
  Bench bench;
  const TestFolder runs;
  const ModelOrigin source = find_model(write_checkpoint(runs.path(), odd_config()));
  CHECK(stored_dtype(source) == DType::f32);
  for (const Layout layout : kLayouts) {
    CHECK(bench.run(source, layout, DType::bf16).max_deviation == 0.0);
    const ModelOrigin exported = find_model(bench.out());
    ParamSet params;
    const Model model(source.config, params);
    for (const Param& param : params.all()) {
      CAPTURE(param.name);
      std::vector<float> before(static_cast<std::size_t>(param.count())), after(before);
      const auto over = [&](std::vector<float>& values) {
        return Tensor(reinterpret_cast<std::byte*>(values.data()), DType::f32, param.shape);
      };
      source.weights->read(param, 0, over(before));
      exported.weights->read(param, 0, over(after));
      const bool is_buffer = param.rule.role == OptimizerRole::none;
      CHECK(exported.weights->is_stored_as_bf16(param) != is_buffer);
      if (!is_buffer) {
        for (float& x : before) x = static_cast<float>(bf16(x));
      }
      CHECK(before == after);
    }
  }
}

TEST_CASE("files stay below the largest size, and the index lists every tensor") {
  Bench bench;
  const ModelOrigin source = find_model(fixture("zaya/basic"));
  const ExportResult result = bench.run(source, Layout::legacy, DType::f32, 150'000);
  REQUIRE(result.files.size() > 5);
  CHECK(result.files[0] == fmt::format("model-00001-of-{:05}.safetensors", result.files.size()));
  CHECK_FALSE(is_file(join_path(bench.out(), "model.safetensors")));
  for (const std::string& file : result.files) {
    const SafetensorsFile opened(join_path(bench.out(), file));
    CHECK(opened.file_size() - opened.header().data_offset <= 150'000);
  }
  const std::string index_path = join_path(bench.out(), "model.safetensors.index.json");
  const Json index = Json::parse(read_file(index_path), index_path);
  CHECK(index.at("metadata").at("total_size").as_integer() == result.num_bytes);
  CHECK(index.at("metadata").at("total_parameters").as_integer() == result.num_elements);
  CHECK(static_cast<Index>(index.at("weight_map").members().size()) == result.num_tensors);
  check_same_tensors(bench.out(), fixture("zaya-legacy/basic-lists"));
  // A tensor above the limit has a file to itself.
  CHECK(bench.run(source, Layout::native, DType::f32, 1).files.size() == 99);
}

TEST_CASE("configuration of generation and tokenizer files travel along") {
  Bench bench;
  const TestFolder model;
  for (const char* name : {"config.json", "model.safetensors", "generation_config.json"}) {
    write_text(model / name, read_file(fixture("zaya/basic/") + name));
  }
  write_text(model / "tokenizer.json", "{\"version\": \"1.0\"}");
  write_text(model / "tokenizer_config.json", "{}");
  bench.run(find_model(model.path()), Layout::native, DType::f32);
  for (const char* name : {"generation_config.json", "tokenizer.json", "tokenizer_config.json"}) {
    CAPTURE(name);
    CHECK(read_file(join_path(bench.out(), name)) == read_file(model / name));
  }
  bench.run(find_model(fixture("zaya-legacy/basic-lists")), Layout::native, DType::f32);
  const std::string path = join_path(bench.out(), "generation_config.json");
  CHECK(Json::parse(read_file(path), path).at("eos_token_id").as_integer() == 1);
  CHECK_FALSE(is_file(join_path(bench.out(), "tokenizer.json")));
}

TEST_CASE("fresh weights are those that training from scratch starts from") {
  Bench bench;
  const ModelConfig config = odd_config();
  bench.run(fresh_model(config, 7, bench.pool), Layout::native, DType::f32);
  Arena arena("weights", Index{64} << 20);
  ParamSet params, exported;
  const Model model(config, params), other(config, exported);
  const Backend backend = make_ref_backend(Numerics::f32);
  params.bind_for_training(arena, backend);
  exported.bind_for_training(arena, backend);
  params.initialize(7);
  model.reset_balancing();
  load_weights_of_folder(bench.out(), exported);
  for (const Param& param : params.all()) {
    CAPTURE(param.name);
    CHECK(std::memcmp(param.master.data(), exported.find(param.name)->master.data(),
                      static_cast<std::size_t>(param.master.num_bytes())) == 0);
  }
}

TEST_CASE("an existing folder is refused and left alone") {
  Bench bench;
  make_directories(bench.out());
  ExportOptions options;
  options.output = bench.out() + "/";
  const ModelOrigin source = find_model(fixture("zaya/basic"));
  CHECK(error_of(ErrorKind::usage, [&] { export_model(source, nullptr, options); }) ==
        bench.out() + ": exists already; name another folder or remove it first");
  CHECK(list_directory(bench.out()).empty());
}

TEST_CASE("a full disk, a bad proof and a stop leave nothing behind") {
  Bench bench;
  const ModelOrigin source = find_model(fixture("zaya/basic"));
  ExportOptions options;
  options.output = bench.out();
  for (const char* point : {"export.tensors.write=enospc@2", "export.tensors.flush=eio",
                            "export.text.write=enospc", "export.text.open=enospc@2"}) {
    CAPTURE(point);
    options.max_shard_bytes = 100'000;
    arm_fault_point(point);
    const std::string message =
        error_of(ErrorKind::hardware, [&] { export_model(source, nullptr, options); });
    arm_fault_point("");
    CHECK_FALSE(message.empty());
    CHECK(message.find('\n') == std::string::npos);
    CHECK(bench.is_clean());
  }
  const Backend backend = bench.backend(DType::f32);
  arm_fault_point("export.proof=eio");
  const std::string message =
      error_of(ErrorKind::damaged, [&] { export_model(source, &backend, options); });
  arm_fault_point("");
  CHECK(message.find("deviate from the source's by 1 (allowed: 0") != std::string::npos);
  CHECK(bench.is_clean());
  CHECK(error_of(ErrorKind::hardware, [&] {
          export_model(source, nullptr, options, [](Index done, Index total) {
            if (done > total / 2) throw Error{ErrorKind::hardware, "stopped"};
          });
        }) == "stopped");
  CHECK(bench.is_clean());
}

TEST_CASE("what does not fit is refused before anything is written") {
  Bench bench;
  const ModelOrigin source = find_model(fixture("zaya-legacy/basic-lists"));
  const Backend backend = bench.backend(DType::f32);
  ExportOptions options;
  options.output = bench.out();
  options.available_bytes = 1000;
  const std::string memory =
      error_of(ErrorKind::usage, [&] { export_model(source, &backend, options); });
  CHECK(memory.find("the proof needs") != std::string::npos);
  CHECK(memory.find("--no-proof") != std::string::npos);
  const ModelOrigin huge = fresh_model(model_preset("zaya1-74b-preview"), 1, bench.pool);
  options.dtype = DType::f32;
  options.output = "/dev/shm/zaya-export-test-out";
  const std::string disk =
      error_of(ErrorKind::hardware, [&] { export_model(huge, nullptr, options); });
  CHECK(disk.find("needs 278.6 GiB, free are") != std::string::npos);
  CHECK(path_kind(options.output) == PathKind::absent);
  CHECK(bench.is_clean());
}

TEST_CASE("an export that was killed is unfinished under another name, and the next one succeeds") {
  Bench bench;
  const ModelOrigin source = find_model(fixture("zaya/basic"));
  ExportOptions options;
  options.output = bench.out();
  const int status = run_in_child([&] {
    arm_fault_point("export.before_rename=kill");
    export_model(source, nullptr, options);
  });
  CHECK(status == 137);
  CHECK(list_directory(bench.folder.path()) == std::vector<std::string>{"out.partial"});
  export_model(source, nullptr, options);
  CHECK(list_directory(bench.folder.path()) == std::vector<std::string>{"out"});
  check_same_tensors(bench.out(), fixture("zaya/basic"));
}

TEST_CASE("the proof sees one changed bit of one weight") {
  Bench bench;
  const ModelOrigin source = find_model(fixture("zaya/basic"));
  bench.run(source, Layout::native, DType::f32);
  const std::string file = join_path(bench.out(), "model.safetensors");
  const SafetensorsFile opened(file);
  const SafetensorsEntry* entry = opened.header().find("model.norm.weight");
  const Index byte = static_cast<Index>(opened.header().data_offset + entry->begin);
  const Backend backend = bench.backend(DType::f32);
  CHECK(proof_deviation(source, bench.out(), backend, DType::f32) == 0);
  flip_bit(file, 8 * (byte + 2) + 1);
  CHECK(proof_deviation(source, bench.out(), backend, DType::f32) > 0);
}

}  // namespace zaya
