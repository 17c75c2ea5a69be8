// SPDX-License-Identifier: Apache-2.0
//
// Training configurations. Any file gives a configuration or an Error; one that was read and
// written out with all its defaults reads as the same mathematics.
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/error.h"
#include "base/file.h"
#include "base/types.h"
#include "train/config.h"

namespace zaya {
namespace {

// One file per process, in memory where the system has such a folder.
const std::string& scratch_path() {
  static const std::string path = std::string(is_directory("/dev/shm") ? "/dev/shm" : "/tmp") +
                                  "/zaya-fuzz-" + std::to_string(::getpid()) + ".toml";
  return path;
}

TrainConfig read(std::string_view text) {
  FileWriter file(scratch_path());
  file.write(text);
  file.close();
  return read_train_config(scratch_path(), {}, [](const std::string& folder) -> ModelConfig {
    throw Error{ErrorKind::usage, folder + ": no models here"};
  });
}

}  // namespace
}  // namespace zaya

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  zaya::TrainConfig config;
  try {
    config = zaya::read({reinterpret_cast<const char*>(data), size});
    zaya::check_train_config(config);
  } catch (const zaya::Error&) {
    zaya::remove_all(zaya::scratch_path());
    return 0;
  }
  // An Error here is a finding: what we write, we read.
  const zaya::TrainConfig again = zaya::read(zaya::to_toml(config));
  ZAYA_CHECK(zaya::mathematical_keys(config) == zaya::mathematical_keys(again));
  zaya::remove_all(zaya::scratch_path());
  return 0;
}
