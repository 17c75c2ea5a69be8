// SPDX-License-Identifier: Apache-2.0
#include "data/byte_source.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"

namespace zaya {

namespace {

constexpr std::size_t kChunkBytes = 1 << 18;
constexpr int kMaxWindowLog = 27;  // 128 MiB

// A file read front to back; what is at hand stays in the chunk until taken.
class RawFile {
 public:
  explicit RawFile(const std::string& path) : path_(path), chunk_(kChunkBytes) {
    if (is_directory(path)) throw Error{ErrorKind::usage, path + ": is a folder, not a file"};
    descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor_ < 0) {
      throw Error{ErrorKind::usage, path + ": can't open: " + std::strerror(errno)};
    }
    static_cast<void>(posix_fadvise(descriptor_, 0, 0, POSIX_FADV_SEQUENTIAL));
  }
  ~RawFile() { ::close(descriptor_); }
  RawFile(const RawFile&) = delete;
  RawFile& operator=(const RawFile&) = delete;

  const std::string& path() const { return path_; }
  std::string_view at_hand() const { return {chunk_.data() + begin_, end_ - begin_}; }
  void take(std::size_t num_bytes) {
    begin_ += num_bytes;
    taken_ += static_cast<Index>(num_bytes);
  }
  Index taken() const { return taken_; }

  // Reads more behind what is at hand; false at the end of the file. Needs room: call when little
  // is at hand.
  bool fill() {
    if (begin_ > 0) {
      std::memmove(chunk_.data(), chunk_.data() + begin_, end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
    }
    while (true) {
      const ssize_t got = ::read(descriptor_, chunk_.data() + end_, chunk_.size() - end_);
      if (got > 0) {
        end_ += static_cast<std::size_t>(got);
        return true;
      }
      if (got == 0) return false;
      if (errno != EINTR) {
        throw Error{ErrorKind::hardware, path_ + ": can't read: " + std::strerror(errno)};
      }
    }
  }
  // As fill(), until `num_bytes` are at hand or the file ends.
  void fill_to(std::size_t num_bytes) {
    while (end_ - begin_ < num_bytes && fill()) {
    }
  }

 private:
  std::string path_;
  int descriptor_ = -1;
  std::vector<char> chunk_;
  std::size_t begin_ = 0, end_ = 0;
  Index taken_ = 0;
};

[[noreturn]] void damaged(const RawFile& file, std::string_view what) {
  throw Error{ErrorKind::damaged, fmt::format("{}: {} at byte {}; fetch or compress it again",
                                              file.path(), what, file.taken())};
}

// One way to turn the bytes of the file into those of the text. 0 is the end.
class Decoder {
 public:
  virtual ~Decoder() = default;
  virtual std::size_t read(RawFile& file, char* data, std::size_t capacity) = 0;
};

class PlainDecoder : public Decoder {
 public:
  std::size_t read(RawFile& file, char* data, std::size_t capacity) override {
    if (file.at_hand().empty() && !file.fill()) return 0;
    const std::size_t count = std::min(capacity, file.at_hand().size());
    std::memcpy(data, file.at_hand().data(), count);
    file.take(count);
    return count;
  }
};

class GzipDecoder : public Decoder {
 public:
  GzipDecoder() {
    // 15: the largest window; 16: gzip wrapper, its checksum and length are verified.
    if (inflateInit2(&stream_, 15 + 16) != Z_OK) throw std::bad_alloc();
  }
  ~GzipDecoder() override { inflateEnd(&stream_); }
  GzipDecoder(const GzipDecoder&) = delete;
  GzipDecoder& operator=(const GzipDecoder&) = delete;

  std::size_t read(RawFile& file, char* data, std::size_t capacity) override {
    capacity = std::min(capacity, std::size_t{1} << 30);
    while (true) {
      if (is_between_members_ && !begin_member(file)) return 0;
      const bool is_at_end = file.at_hand().empty() && !file.fill();
      const std::string_view input = file.at_hand();
      stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(input.data()));
      stream_.avail_in = static_cast<uInt>(input.size());
      stream_.next_out = reinterpret_cast<Bytef*>(data);
      stream_.avail_out = static_cast<uInt>(capacity);
      const int status = inflate(&stream_, Z_NO_FLUSH);
      file.take(input.size() - stream_.avail_in);
      if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR) {
        damaged(file, fmt::format("the gzip stream is damaged ({})",
                                  stream_.msg != nullptr ? stream_.msg : "no detail"));
      }
      is_between_members_ = status == Z_STREAM_END;
      if (is_at_end && status == Z_BUF_ERROR) damaged(file, "the gzip stream is cut off");
      if (const std::size_t got = capacity - stream_.avail_out; got > 0) return got;
    }
  }

 private:
  // False at the end of the file. Zero bytes after the last member are padding (tapes, block
  // devices); anything else is not gzip.
  bool begin_member(RawFile& file) {
    file.fill_to(2);
    while (!file.at_hand().empty() && file.at_hand()[0] == '\0') {
      file.take(1);
      has_padding_ = true;
      if (file.at_hand().empty()) file.fill();
    }
    if (file.at_hand().empty()) return false;
    if (has_padding_ || !file.at_hand().starts_with("\x1f\x8b")) {
      damaged(file, "bytes that are not gzip follow the gzip stream");
    }
    inflateReset(&stream_);
    is_between_members_ = false;
    return true;
  }

  z_stream stream_{};
  bool is_between_members_ = false, has_padding_ = false;
};

class ZstdDecoder : public Decoder {
 public:
  ZstdDecoder() : context_(ZSTD_createDCtx()) {
    if (context_ == nullptr) throw std::bad_alloc();
    ZSTD_DCtx_setParameter(context_, ZSTD_d_windowLogMax, kMaxWindowLog);
  }
  ~ZstdDecoder() override { ZSTD_freeDCtx(context_); }
  ZstdDecoder(const ZstdDecoder&) = delete;
  ZstdDecoder& operator=(const ZstdDecoder&) = delete;

  std::size_t read(RawFile& file, char* data, std::size_t capacity) override {
    while (true) {
      if (file.at_hand().empty() && !file.fill() && !has_pending_output_) {
        if (is_in_frame_) damaged(file, "the zstd stream is cut off");
        return 0;
      }
      ZSTD_inBuffer input{file.at_hand().data(), file.at_hand().size(), 0};
      ZSTD_outBuffer output{data, capacity, 0};
      const std::size_t status = ZSTD_decompressStream(context_, &output, &input);
      file.take(input.pos);
      if (ZSTD_isError(status) != 0) fail(file, status);
      is_in_frame_ = status != 0;
      // A full output may hide more that the library holds back.
      has_pending_output_ = is_in_frame_ && output.pos == capacity;
      if (output.pos > 0) return output.pos;
    }
  }

 private:
  [[noreturn]] static void fail(const RawFile& file, std::size_t status) {
    if (ZSTD_getErrorCode(status) == ZSTD_error_frameParameter_windowTooLarge) {
      throw Error{ErrorKind::damaged,
                  fmt::format("{}: was compressed with a window above 128 MiB (zstd --long=28 or "
                              "more); recompress it: zstd -d --long=31 -c FILE | zstd --long=27",
                              file.path())};
    }
    damaged(file, fmt::format("the zstd stream is damaged ({})", ZSTD_getErrorName(status)));
  }

  ZSTD_DCtx* context_;
  bool is_in_frame_ = false, has_pending_output_ = false;
};

bool is_zstd(std::string_view head) {
  if (head.starts_with("\x28\xb5\x2f\xfd")) return true;
  // A skippable frame: 50..5f 2a 4d 18.
  return head.size() >= 4 && (static_cast<unsigned char>(head[0]) & 0xf0u) == 0x50 &&
         head.substr(1, 3) == "\x2a\x4d\x18";
}

std::unique_ptr<Decoder> decoder_for(std::string_view head) {
  if (head.starts_with("\x1f\x8b")) return std::make_unique<GzipDecoder>();
  if (is_zstd(head)) return std::make_unique<ZstdDecoder>();
  return std::make_unique<PlainDecoder>();
}

}  // namespace

std::string refusal_of(std::string_view head, const std::string& path) {
  using std::string_view_literals::operator""sv;
  struct Format {
    std::string_view magic, name, advice;
  };
  static constexpr Format kFormats[] = {
      {"PAR1"sv, "a Parquet file", ""},
      {"ARROW1"sv, "an Arrow file", "write its text column as JSONL with Python pyarrow"},
      {"PK\x03\x04"sv, "a zip archive", "unpack it first"},
      {"\xfd"
       "7zXZ\0"sv,
       "an xz file", "unpack it first: xz -d"},
      {"BZh"sv, "a bzip2 file", "unpack it first: bzip2 -d"},
      {"7z\xbc\xaf\x27\x1c"sv, "a 7-Zip archive", "unpack it first"},
      {"%PDF-"sv, "a PDF document", "extract its text first: pdftotext"},
      {"\x93NUMPY"sv, "a numpy array", "token files are read by zaya dataset import"},
      {"MMIDIDX\0\0"sv, "the index of a token file", "it needs no preparing; train on its prefix"},
      {"Obj\x01"sv, "an Avro file", "write its text as JSONL first"},
      {"ORC"sv, "an ORC file", "write its text as JSONL first"},
      {"SQLite format 3\0"sv, "an SQLite database", "write its text as JSONL first"},
  };
  for (const Format& format : kFormats) {
    // bzip2's magic is a word that a text may begin with: its fourth byte is a digit.
    if (!head.starts_with(format.magic)) continue;
    if (format.magic == "BZh" && (head.size() < 10 || head.substr(4, 3) != "1AY")) continue;
    if (format.magic == "ORC" && head.find('\0') == std::string_view::npos) continue;
    const std::string advice =
        format.magic == "PAR1"
            ? fmt::format(
                  "convert it: duckdb -c \"COPY (SELECT text FROM '{}') TO 'x.jsonl' (FORMAT "
                  "json)\" (or with Python pyarrow)",
                  path)
            : std::string(format.advice);
    return fmt::format("{}: is {}, not text or JSONL; {}", path, format.name, advice);
  }
  if (head.size() >= 262 && head.substr(257, 5) == "ustar") {
    return path + ": is a tar archive, not text or JSONL; unpack it first: tar -x";
  }
  return "";
}

struct ByteSource::State {
  explicit State(const std::string& path) : file(path) {}

  RawFile file;
  std::unique_ptr<Decoder> decoder;
};

ByteSource::ByteSource(const std::string& path) : state_(std::make_unique<State>(path)) {
  state_->file.fill_to(512);
  const std::string_view head = state_->file.at_hand();
  if (std::string refusal = refusal_of(head, path); !refusal.empty()) {
    throw Error{ErrorKind::usage, std::move(refusal)};
  }
  state_->decoder = decoder_for(head);
}

ByteSource::~ByteSource() = default;
ByteSource::ByteSource(ByteSource&&) noexcept = default;
ByteSource& ByteSource::operator=(ByteSource&&) noexcept = default;

std::size_t ByteSource::read(char* data, std::size_t capacity) {
  return state_->decoder->read(state_->file, data, capacity);
}

Index ByteSource::consumed() const { return state_->file.taken(); }

}  // namespace zaya
