// SPDX-License-Identifier: Apache-2.0
//
// Leaves out text that was there before, word for word. Keeps 16 bytes of digest (some 50 bytes of
// memory) for each text seen.
#pragma once

#include <memory>
#include <string>

#include "base/types.h"

namespace zaya {

class RepeatFilter {
 public:
  // What is compared: nothing, whole documents, or the paragraphs of documents (cut at blank
  // lines).
  enum class Unit { none, document, paragraph };

  explicit RepeatFilter(Unit unit);
  ~RepeatFilter();
  RepeatFilter(RepeatFilter&&) noexcept;

  // False when nothing of the document is left. Repeated paragraphs are cut out of `text`, and
  // those that stay are joined by one blank line. An empty document repeats nothing.
  bool keep(std::string& text);

  Index num_documents() const { return num_documents_; }    // left out altogether
  Index num_paragraphs() const { return num_paragraphs_; }  // cut out

 private:
  struct Seen;

  bool cut_paragraphs(std::string& text);

  Unit unit_;
  std::unique_ptr<Seen> seen_;
  Index num_documents_ = 0, num_paragraphs_ = 0;
};

}  // namespace zaya
