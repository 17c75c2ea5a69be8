// SPDX-License-Identifier: Apache-2.0
//
// Documents in chunks of bounded size, read by a thread of its own while the chunk before is being
// encoded. Remembers after each chunk where reading can begin again.
#pragma once

#include <memory>
#include <vector>

#include "data/document.h"
#include "data/repeats.h"

namespace zaya {

// Where a reader can begin again: before document number `documents_in_file` of file `file`.
struct ReadPosition {
  Index file = 0;
  Index documents_in_file = 0;
  Index documents = 0;            // of all files
  ReadReport report_before_file;  // counted before that file
};

struct DocumentChunk {
  std::vector<Document> documents;
  // After the last document of this chunk:
  ReadPosition end;
  ReadReport report;
  Index repeated_documents = 0, repeated_paragraphs = 0;
  Index consumed = 0;  // bytes of the files
};

class ChunkReader {
 public:
  // Goes on at `start`. With a filter everything is read from the first file on, for it must know
  // what was seen; what lies before `start` is not handed out again. A chunk is full from
  // `chunk_bytes` of text on.
  ChunkReader(std::vector<InputFile> files, const ReadOptions& options, RepeatFilter::Unit repeats,
              const ReadPosition& start, Index chunk_bytes);
  // Stops the thread; waits at most for the document that is being read.
  ~ChunkReader();
  ChunkReader(const ChunkReader&) = delete;
  ChunkReader& operator=(const ChunkReader&) = delete;

  // False after the last chunk; `chunk` then holds no documents but the final counts. What the
  // thread threw is thrown here, after the documents before it.
  bool next(DocumentChunk& chunk);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace zaya
