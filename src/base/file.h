// SPDX-License-Identifier: Apache-2.0
//
// Files: memory maps, checked writes, atomic replacement. Every failure throws Error naming the
// path: kind hardware for the system's refusals (full disk, I/O error), usage for a path that is
// not there or may not be read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"

namespace zaya {

// A read-only memory map of a whole file. Empty files map to an empty span. The file stays open
// until destruction; truncation by somebody else is not protected against.
class MappedFile {
 public:
  MappedFile() = default;
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }
  // Hints for the kernel: a range will be read soon, or its pages are no longer needed.
  void will_need(std::size_t offset, std::size_t num_bytes) const;
  // Brings the whole file in at once, where the system can: cheaper than page by page.
  void populate() const;
  void dont_need(std::size_t offset, std::size_t num_bytes) const;

 private:
  std::string path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// Reads at positions without a map: what the device refuses becomes an Error, and memory stays
// bounded. Reading is thread-safe.
class FileReader {
 public:
  explicit FileReader(std::string path);
  ~FileReader();
  FileReader(FileReader&& other) noexcept;
  FileReader& operator=(FileReader&&) = delete;

  const std::string& path() const { return path_; }
  Index size() const { return size_; }  // when it was opened
  // Fills `data` with the bytes from `offset`. A file that ends early is Error{damaged}. Passes the
  // fault point file.read.
  void read_at(Index offset, void* data, std::size_t num_bytes) const;
  // Asks the system to forget the file's pages, so that the next read comes from the device.
  void drop_cache() const;

 private:
  std::string path_;
  int descriptor_ = -1;
  Index size_ = 0;
};

// Buffered, checked writing of a new file (truncates an existing one). Each system call passes the
// fault point NAME.write / NAME.flush when a fault point name is given. close() flushes; the
// destructor closes without flushing and never throws.
class FileWriter {
 public:
  explicit FileWriter(std::string path, std::string fault_name = "", bool append = false);
  ~FileWriter();
  FileWriter(FileWriter&&) noexcept;
  FileWriter& operator=(FileWriter&&) = delete;

  void write(const void* data, std::size_t num_bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  // Bytes accepted so far, the starting size of an appended file included.
  std::int64_t position() const { return position_; }
  // Hands the buffer to the system.
  void flush();
  // flush(), then waits until the bytes are on the device.
  void sync();
  void close();
  const std::string& path() const { return path_; }

 private:
  void write_through(const char* data, std::size_t num_bytes);

  std::string path_, fault_name_;
  int descriptor_ = -1;
  std::int64_t position_ = 0;
  std::vector<char> buffer_;
};

std::string read_file(const std::string& path);
// As FileWriter under a temporary name beside `path`, then sync, rename and sync of the folder:
// afterwards `path` holds either the old content or the new one, whatever happens in between.
void write_file_atomically(const std::string& path, std::string_view content,
                           std::string fault_name = "");
// Renames and makes the change durable in the folder of `to`.
void rename_durably(const std::string& from, const std::string& to);
void sync_directory(const std::string& path);

enum class PathKind { absent, file, directory, other };
PathKind path_kind(const std::string& path);
inline bool is_file(const std::string& path) { return path_kind(path) == PathKind::file; }
inline bool is_directory(const std::string& path) { return path_kind(path) == PathKind::directory; }
Index file_size(const std::string& path);
// Cuts a file back to its first `num_bytes` bytes.
void truncate_file(const std::string& path, Index num_bytes);
// Creates the folder and its parents; fine if it is there already.
void make_directories(const std::string& path);
// Names (not paths) in a folder, in byte order, without "." and "..".
std::vector<std::string> list_directory(const std::string& path);
// Removes a file or a folder with its content; fine if it is not there.
void remove_all(const std::string& path);
// Bytes that an unprivileged process can still write on the file system of `path`.
Index free_bytes(const std::string& path);

std::string join_path(std::string_view folder, std::string_view name);
// The part after the last '/', and the part before it ("." when there is none).
std::string base_name(std::string_view path);
std::string directory_name(std::string_view path);

}  // namespace zaya
