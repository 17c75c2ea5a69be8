// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/error.h"
#include "base/fault_point.h"

namespace zaya {

namespace {

[[noreturn]] void fail(const std::string& path, const char* action, int error) {
  const bool is_usage =
      error == ENOENT || error == EACCES || error == ENOTDIR || error == EISDIR || error == EPERM;
  std::string advice;
  if (error == ENOSPC || error == EDQUOT) advice = "; free some space on that file system";
  throw Error{is_usage ? ErrorKind::usage : ErrorKind::hardware,
              path + ": can't " + action + ": " + std::strerror(error) + advice};
}

// Closes a descriptor at the end of a scope.
struct Closer {
  int descriptor;
  ~Closer() { ::close(descriptor); }
};

constexpr std::size_t kBufferBytes = 1 << 20;

}  // namespace

MappedFile::MappedFile(const std::string& path) : path_(path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) fail(path, "open", errno);
  const Closer closer{descriptor};
  struct stat info {};
  if (fstat(descriptor, &info) != 0) fail(path, "read", errno);
  if (!S_ISREG(info.st_mode)) {
    throw Error{ErrorKind::usage, path + ": is not a regular file"};
  }
  size_ = static_cast<std::size_t>(info.st_size);
  if (size_ == 0) return;
  void* address = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (address == MAP_FAILED) fail(path, "map", errno);
  data_ = static_cast<const std::byte*>(address);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

namespace {

void advise(const std::byte* data, std::size_t size, std::size_t offset, std::size_t num_bytes,
            int advice) {
  if (data == nullptr || offset >= size) return;
  const std::size_t page = 4096;
  const std::size_t begin = offset / page * page;
  const std::size_t end = std::min(size, offset + num_bytes);
  if (end <= begin) return;
  static_cast<void>(madvise(const_cast<std::byte*>(data + begin), end - begin, advice));
}

}  // namespace

void MappedFile::will_need(std::size_t offset, std::size_t num_bytes) const {
  advise(data_, size_, offset, num_bytes, MADV_WILLNEED);
}

void MappedFile::populate() const {
  if (size_ > 0) {
    static_cast<void>(madvise(const_cast<std::byte*>(data_), size_, MADV_POPULATE_READ));
  }
}

void MappedFile::dont_need(std::size_t offset, std::size_t num_bytes) const {
  advise(data_, size_, offset, num_bytes, MADV_DONTNEED);
}

FileReader::FileReader(std::string path) : path_(std::move(path)) {
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0) fail(path_, "open", errno);
  struct stat info {};
  const int error = fstat(descriptor_, &info) != 0 ? errno : S_ISDIR(info.st_mode) ? EISDIR : 0;
  if (error != 0) {
    ::close(std::exchange(descriptor_, -1));
    fail(path_, "read", error);
  }
  size_ = info.st_size;
}

FileReader::~FileReader() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

FileReader::FileReader(FileReader&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_) {}

void FileReader::read_at(Index offset, void* data, std::size_t num_bytes) const {
  char* bytes = static_cast<char*>(data);
  if (const int error = fault_errno("file.read")) fail(path_, "read", error);
  while (num_bytes > 0) {
    const ssize_t got = ::pread(descriptor_, bytes, num_bytes, offset);
    if (got < 0) {
      if (errno == EINTR) continue;
      fail(path_, "read", errno);
    }
    if (got == 0) {
      throw Error{ErrorKind::damaged,
                  path_ + ": ends at byte " + std::to_string(offset) + ", before its content does"};
    }
    bytes += got;
    offset += got;
    num_bytes -= static_cast<std::size_t>(got);
  }
}

void FileReader::drop_cache() const {
  static_cast<void>(posix_fadvise(descriptor_, 0, 0, POSIX_FADV_DONTNEED));
}

FileWriter::FileWriter(std::string path, std::string fault_name, bool append)
    : path_(std::move(path)), fault_name_(std::move(fault_name)) {
  if (const int error = fault_name_.empty() ? 0 : fault_errno(fault_name_ + ".open")) {
    fail(path_, "write", error);
  }
  descriptor_ =
      ::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | (append ? O_APPEND : O_TRUNC), 0666);
  if (descriptor_ < 0) fail(path_, "write", errno);
  if (append) position_ = lseek(descriptor_, 0, SEEK_END);
  buffer_.reserve(kBufferBytes);
}

FileWriter::~FileWriter() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

FileWriter::FileWriter(FileWriter&& other) noexcept
    : path_(std::move(other.path_)),
      fault_name_(std::move(other.fault_name_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      position_(other.position_),
      buffer_(std::move(other.buffer_)) {}

void FileWriter::write_through(const char* data, std::size_t num_bytes) {
  while (num_bytes > 0) {
    if (const int error = fault_name_.empty() ? 0 : fault_errno(fault_name_ + ".write")) {
      fail(path_, "write", error);
    }
    const ssize_t written = ::write(descriptor_, data, std::min(num_bytes, std::size_t{1} << 26));
    if (written < 0) {
      if (errno == EINTR) continue;
      fail(path_, "write", errno);
    }
    data += written;
    num_bytes -= static_cast<std::size_t>(written);
  }
}

void FileWriter::write(const void* data, std::size_t num_bytes) {
  const char* bytes = static_cast<const char*>(data);
  position_ += static_cast<std::int64_t>(num_bytes);
  if (buffer_.size() + num_bytes > kBufferBytes) flush();
  if (num_bytes >= kBufferBytes) {
    write_through(bytes, num_bytes);
  } else {
    buffer_.insert(buffer_.end(), bytes, bytes + num_bytes);
  }
}

void FileWriter::flush() {
  write_through(buffer_.data(), buffer_.size());
  buffer_.clear();
}

void FileWriter::sync() {
  flush();
  if (const int error = fault_name_.empty() ? 0 : fault_errno(fault_name_ + ".flush")) {
    fail(path_, "flush", error);
  }
  if (fsync(descriptor_) != 0 && errno != EINVAL && errno != EROFS) fail(path_, "flush", errno);
}

void FileWriter::close() {
  flush();
  const int descriptor = std::exchange(descriptor_, -1);
  if (::close(descriptor) != 0) fail(path_, "close", errno);
}

std::string read_file(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) fail(path, "open", errno);
  const Closer closer{descriptor};
  std::string content;
  char chunk[1 << 16];
  while (true) {
    const ssize_t got = ::read(descriptor, chunk, sizeof chunk);
    if (got < 0) {
      if (errno == EINTR) continue;
      fail(path, "read", errno);
    }
    if (got == 0) return content;
    content.append(chunk, static_cast<std::size_t>(got));
  }
}

void write_file_atomically(const std::string& path, std::string_view content,
                           std::string fault_name) {
  const std::string partial = path + ".partial";
  try {
    FileWriter writer(partial, std::move(fault_name));
    writer.write(content);
    writer.sync();
    writer.close();
    rename_durably(partial, path);
  } catch (const Error&) {
    ::unlink(partial.c_str());
    throw;
  }
}

void rename_durably(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) fail(to, "rename to", errno);
  sync_directory(directory_name(to));
}

void sync_directory(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) fail(path, "open", errno);
  const Closer closer{descriptor};
  if (fsync(descriptor) != 0 && errno != EINVAL && errno != EROFS) fail(path, "flush", errno);
}

PathKind path_kind(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return PathKind::absent;
  if (S_ISREG(info.st_mode)) return PathKind::file;
  return S_ISDIR(info.st_mode) ? PathKind::directory : PathKind::other;
}

Index file_size(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) fail(path, "read", errno);
  return info.st_size;
}

void truncate_file(const std::string& path, Index num_bytes) {
  if (::truncate(path.c_str(), num_bytes) != 0) fail(path, "shorten", errno);
}

void make_directories(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) fail(path, "create the folder", error.value());
}

std::vector<std::string> list_directory(const std::string& path) {
  DIR* directory = opendir(path.c_str());
  if (directory == nullptr) fail(path, "list", errno);
  std::vector<std::string> names;
  while (const dirent* entry = readdir(directory)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  closedir(directory);
  std::sort(names.begin(), names.end());
  return names;
}

void remove_all(const std::string& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  if (error) fail(path, "remove", error.value());
}

Index free_bytes(const std::string& path) {
  struct statvfs info {};
  if (statvfs(path.c_str(), &info) != 0) fail(path, "examine", errno);
  return static_cast<Index>(info.f_bavail) * static_cast<Index>(info.f_frsize);
}

std::string join_path(std::string_view folder, std::string_view name) {
  if (folder.empty() || name.starts_with('/')) return std::string(name);
  std::string path(folder);
  if (!path.ends_with('/')) path += '/';
  path += name;
  return path;
}

std::string base_name(std::string_view path) {
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  const std::size_t slash = path.rfind('/');
  return std::string(slash == std::string_view::npos ? path : path.substr(slash + 1));
}

std::string directory_name(std::string_view path) {
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  const std::size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return ".";
  return std::string(path.substr(0, std::max<std::size_t>(slash, 1)));
}

}  // namespace zaya
