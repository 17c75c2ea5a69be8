// SPDX-License-Identifier: Apache-2.0
#include "data/chunk_reader.h"

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

namespace zaya {

namespace {

constexpr std::size_t kChunkDocuments = 1 << 15;
constexpr std::size_t kWaitingChunks = 2;

}  // namespace

struct ChunkReader::State {
  State(std::vector<InputFile> files, const ReadOptions& options, RepeatFilter::Unit repeats,
        const ReadPosition& start, Index bytes)
      : chunk_bytes(static_cast<std::size_t>(bytes)),
        reader(std::move(files), options, repeats == RepeatFilter::Unit::none ? start.file : 0,
               repeats == RepeatFilter::Unit::none ? start.report_before_file : ReadReport{}),
        filter(repeats) {
    if (repeats == RepeatFilter::Unit::none) {
      position = start;
      position.documents_in_file = 0;
      position.documents = start.documents - start.documents_in_file;
    }
    first_document = start.documents;
  }

  const std::size_t chunk_bytes;
  // Of the reading thread.
  DocumentReader reader;
  RepeatFilter filter;
  ReadPosition position;     // after the newest document
  Index first_document = 0;  // documents before it were handed out in an earlier run

  std::mutex mutex;  // guards all below
  std::condition_variable changed;
  std::deque<DocumentChunk> chunks;
  bool is_finished = false, is_stopping = false;
  std::exception_ptr failure;
  std::thread thread;

  void run();
  bool fill(DocumentChunk& chunk);
  bool should_stop() {
    const std::lock_guard lock(mutex);
    return is_stopping;
  }
  void describe_end(DocumentChunk& chunk) const;
};

void ChunkReader::State::describe_end(DocumentChunk& chunk) const {
  chunk.end = position;
  chunk.report = reader.report();
  chunk.repeated_documents = filter.num_documents();
  chunk.repeated_paragraphs = filter.num_paragraphs();
  chunk.consumed = reader.consumed();
}

// Reads until the chunk is full; false at the end of the input.
bool ChunkReader::State::fill(DocumentChunk& chunk) {
  std::size_t num_bytes = 0;
  Document document;
  while (num_bytes < chunk_bytes && chunk.documents.size() < kChunkDocuments) {
    if (!reader.next(document)) return false;
    if (document.file != position.file) {
      position.file = document.file;
      position.documents_in_file = 0;
    }
    position.report_before_file = reader.report_before_file();
    ++position.documents_in_file;
    const bool was_done = position.documents++ < first_document;
    const bool is_kept = filter.keep(document.text);
    if (should_stop()) return false;
    if (was_done || !is_kept) continue;
    num_bytes += document.text.size();
    chunk.documents.push_back(std::move(document));
  }
  return true;
}

void ChunkReader::State::run() {
  bool has_more = true;
  while (has_more) {
    DocumentChunk chunk;
    std::exception_ptr problem;
    try {
      has_more = fill(chunk);
    } catch (...) {
      problem = std::current_exception();
      has_more = false;
    }
    describe_end(chunk);
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return is_stopping || chunks.size() < kWaitingChunks; });
    if (is_stopping) return;
    chunks.push_back(std::move(chunk));
    failure = problem;
    is_finished = !has_more;
    changed.notify_all();
  }
}

ChunkReader::ChunkReader(std::vector<InputFile> files, const ReadOptions& options,
                         RepeatFilter::Unit repeats, const ReadPosition& start, Index chunk_bytes)
    : state_(std::make_unique<State>(std::move(files), options, repeats, start, chunk_bytes)) {
  state_->thread = std::thread([state = state_.get()] { state->run(); });
}

ChunkReader::~ChunkReader() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->is_stopping = true;
  }
  state_->changed.notify_all();
  state_->thread.join();
}

bool ChunkReader::next(DocumentChunk& chunk) {
  State& s = *state_;
  std::unique_lock lock(s.mutex);
  s.changed.wait(lock, [&] { return !s.chunks.empty() || s.is_finished; });
  if (s.chunks.empty()) {
    if (s.failure) std::rethrow_exception(s.failure);
    chunk.documents.clear();
    return false;
  }
  chunk = std::move(s.chunks.front());
  s.chunks.pop_front();
  s.changed.notify_all();
  return true;
}

}  // namespace zaya
