// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fault_point.h"

namespace zaya {

namespace {

std::string scratch() {
  const std::string path = "/tmp/zaya-file-test-" + std::to_string(getpid());
  make_directories(path);
  return path;
}

}  // namespace

TEST_CASE("an atomic write leaves the old or the new content") {
  const std::string folder = scratch(), path = join_path(folder, "a");
  write_file_atomically(path, "one");
  write_file_atomically(path, "two", "test.atomic");
  CHECK(read_file(path) == "two");
  arm_fault_point("test.atomic.write=enospc");
  try {
    write_file_atomically(path, "three", "test.atomic");
    FAIL("a full disk must be reported");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::hardware);
    CHECK(error.message().find("No space left") != std::string::npos);
  }
  arm_fault_point("");
  CHECK(read_file(path) == "two");
  CHECK(list_directory(folder).size() == 1);
  remove_all(folder);
}

TEST_CASE("appending goes on where the file ended and maps see it") {
  const std::string folder = scratch(), path = join_path(folder, "b");
  {
    FileWriter writer(path);
    writer.write("abc");
    writer.close();
  }
  FileWriter writer(path, "", true);
  CHECK(writer.position() == 3);
  writer.write(std::string(3 << 20, 'x'));
  writer.close();
  const MappedFile map(path);
  CHECK(map.bytes().size() == 3 + (3u << 20));
  CHECK(map.text().substr(0, 4) == "abcx");
  CHECK_THROWS_AS(MappedFile(join_path(folder, "missing")), Error);
  CHECK_THROWS_AS(MappedFile{folder}, Error);
  remove_all(folder);
}

TEST_CASE("paths join and split") {
  CHECK(join_path("a", "b") == "a/b");
  CHECK(join_path("a/", "b") == "a/b");
  CHECK(join_path("a", "/b") == "/b");
  CHECK(base_name("x/y/") == "y");
  CHECK(directory_name("x/y") == "x");
  CHECK(directory_name("y") == ".");
  CHECK(directory_name("/y") == "/");
}

}  // namespace zaya
