// SPDX-License-Identifier: Apache-2.0
//
// Death at every named point of a save, alone and together with a power loss. The program's own
// fsync() notes what the device has for certain; a power loss then takes away the rest: names not
// flushed with their folder, bytes not flushed with their file.
#include <dirent.h>
#include <doctest/doctest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>

#include "base/check.h"
#include "base/fault_point.h"
#include "checkpoint/reader.h"
#include "checkpoint/testing.h"
#include "checkpoint/writer.h"

namespace zaya {

namespace {

constexpr int kMaxNames = 24;

// State of one file or folder at a flush.
struct Flushed {
  ino_t inode;
  off_t size;  // of a file
  int num_names;
  char names[kMaxNames][40];
  ino_t inodes[kMaxNames];
};

// Flushes in order, in memory shared with child processes.
struct Journal {
  static constexpr int kCapacity = 4000;
  std::atomic<int> count;
  std::atomic<bool> is_on, ignores_files;
  Flushed records[kCapacity];
};

Journal& journal() {
  static Journal* const shared = static_cast<Journal*>(
      mmap(nullptr, sizeof(Journal), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  return *shared;
}

void note_folder(int descriptor, Flushed& record) {
  DIR* folder = fdopendir(dup(descriptor));
  rewinddir(folder);
  while (const dirent* entry = readdir(folder)) {
    if (entry->d_name[0] == '.') continue;
    ZAYA_CHECK(record.num_names < kMaxNames && std::strlen(entry->d_name) < 40);
    std::strcpy(record.names[record.num_names], entry->d_name);
    record.inodes[record.num_names++] = entry->d_ino;
  }
  closedir(folder);
}

void note_flush(int descriptor) {
  Journal& j = journal();
  if (!j.is_on) return;
  struct stat info {};
  fstat(descriptor, &info);
  if (!S_ISDIR(info.st_mode) && j.ignores_files) return;
  const int slot = j.count++;
  ZAYA_CHECK(slot < Journal::kCapacity);
  Flushed& record = j.records[slot];
  record = {};
  record.inode = info.st_ino;
  record.size = info.st_size;
  if (S_ISDIR(info.st_mode)) note_folder(descriptor, record);
}

const Flushed* last_flush(ino_t inode) {
  const Journal& j = journal();
  for (int i = j.count - 1; i >= 0; --i) {
    if (j.records[i].inode == inode) return &j.records[i];
  }
  return nullptr;
}

ino_t inode_of(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 ? info.st_ino : 0;
}

// Bytes that were not flushed become zeros.
void lose_bytes(const std::string& file) {
  const Flushed* flushed = last_flush(inode_of(file));
  const Index size = file_size(file);
  const Index kept = flushed == nullptr ? 0 : std::min<Index>(flushed->size, size);
  cut_file(file, kept);
  cut_file(file, size);
}

// Names that were not flushed go back to what they were, or vanish when they are new.
void lose_power(const std::string& folder) {
  std::map<ino_t, std::string> durable;
  if (const Flushed* flushed = last_flush(inode_of(folder))) {
    for (int i = 0; i < flushed->num_names; ++i) {
      durable[flushed->inodes[i]] = flushed->names[i];
    }
  }
  for (const std::string& name : list_directory(folder)) {
    const std::string path = join_path(folder, name);
    const auto known = durable.find(inode_of(path));
    if (known == durable.end()) {
      remove_all(path);
      continue;
    }
    const std::string old_path = join_path(folder, known->second);
    if (old_path != path && path_kind(old_path) == PathKind::absent) {
      std::filesystem::rename(path, old_path);
    }
  }
  for (const std::string& name : list_directory(folder)) {
    const std::string path = join_path(folder, name);
    if (is_directory(path)) {
      lose_power(path);
    } else {
      lose_bytes(path);
    }
  }
}

struct Outcome {
  int status = 0;
  Index newest = -1;  // step found after the restart
};

// Saves steps 1 to 3 in a child that dies at the fault during step 3, then restarts.
Outcome die_at(const std::string& fault, const std::string& folder, bool has_power_loss) {
  make_directories(folder);
  journal().count = 0;
  journal().is_on = true;
  Outcome outcome;
  outcome.status = run_in_child([&] {
    ThreadPool pool(1);
    CheckpointWriter writer(folder, Retention{1, 0}, pool);
    for (Index step = 1; step <= 3; ++step) {
      const TestState state(step);
      if (step == 3) arm_fault_point(fault);
      writer.save(step, state.tensors(), state.run_state());
      writer.wait();
    }
  });
  journal().is_on = false;
  if (has_power_loss) lose_power(folder);
  const FoundCheckpoint found = find_newest(folder);
  CHECK(found.problems.empty());
  if (found.path.empty()) return outcome;
  outcome.newest = CheckpointReader(found.path).step();
  CHECK(holds_state(found.path, TestState(outcome.newest)));
  // Life goes on in the same folder.
  ThreadPool pool(1);
  CheckpointWriter writer(folder, Retention{1, 0}, pool);
  writer.save(4, TestState(4).tensors(), TestState(4).run_state());
  writer.wait();
  CHECK(find_newest(folder).path == join_path(folder, step_name(4)));
  return outcome;
}

}  // namespace

}  // namespace zaya

// In place of the C library's.
extern "C" int fsync(int descriptor) {
  zaya::note_flush(descriptor);
  return static_cast<int>(syscall(SYS_fsync, descriptor));
}

namespace zaya {

TEST_CASE("death at any point of a save leaves a checkpoint to continue from" *
          doctest::test_suite("slow")) {
  const TestFolder folder;
  int run = 0;
  for (const bool has_power_loss : {false, true}) {
    for (const std::string point :
         {"checkpoint.tensors.open", "checkpoint.tensors.write", "checkpoint.tensors.flush",
          "checkpoint.index.open", "checkpoint.index.write", "checkpoint.index.flush",
          "checkpoint.before_verify", "file.read", "checkpoint.before_rename"}) {
      CAPTURE(point);
      CAPTURE(has_power_loss);
      const Outcome outcome =
          die_at(point + "=kill", folder / std::to_string(++run), has_power_loss);
      CHECK(outcome.status == 137);
      CHECK(outcome.newest == 2);
    }
    for (const std::string point :
         {"checkpoint.after_rename", "checkpoint.before_prune", "checkpoint.prune"}) {
      CAPTURE(point);
      CAPTURE(has_power_loss);
      const Outcome outcome =
          die_at(point + "=kill", folder / std::to_string(++run), has_power_loss);
      CHECK(outcome.status == 137);
      CHECK(outcome.newest == 3);
    }
  }
}

TEST_CASE("a power loss after the end of a save takes nothing away") {
  const TestFolder folder;
  const Outcome outcome = die_at("nowhere=kill", folder / "run", true);
  CHECK(outcome.status == 0);
  CHECK(outcome.newest == 3);
}

TEST_CASE("the simulated power loss does harm where files are not flushed") {
  const TestFolder folder;
  journal().count = 0;
  journal().ignores_files = true;
  journal().is_on = true;
  ThreadPool pool(1);
  {
    CheckpointWriter writer(folder.path(), Retention{1, 0}, pool);
    const TestState state(1);
    writer.save(1, state.tensors(), state.run_state());
    writer.wait();
  }
  journal().is_on = false;
  journal().ignores_files = false;
  lose_power(folder.path());
  CHECK_FALSE(
      error_of(ErrorKind::damaged, [&] { static_cast<void>(find_newest(folder.path())); }).empty());
}

}  // namespace zaya
