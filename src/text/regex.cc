// SPDX-License-Identifier: Apache-2.0
#include "text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/core.h>
#include <pcre2.h>

#include <array>
#include <new>

#include "base/error.h"
#include "text/regex_dialect.h"
#include "text/unicode.h"

namespace zaya {

namespace {

constexpr std::size_t kSmallestStack = 32 << 10;
constexpr std::size_t kLargestStack = 64 << 20;
constexpr std::uint32_t kMatchLimit = 100'000'000;
// In KiB; bounds the interpreter, which runs where the JIT compiler is not available.
constexpr std::uint32_t kHeapLimit = 256 << 10;
constexpr std::uint32_t kOptions =
    PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;

template <auto Free>
struct Deleter {
  template <class T>
  void operator()(T* object) const {
    Free(object);
  }
};

using CodePointer = std::unique_ptr<pcre2_code, Deleter<pcre2_code_free>>;

struct Compiled {
  CodePointer code;
  int error = 0;
  std::size_t offset = 0;
};

Compiled compile(const std::string& pattern) {
  const std::unique_ptr<pcre2_compile_context, Deleter<pcre2_compile_context_free>> context(
      pcre2_compile_context_create(nullptr));
  if (context == nullptr) throw std::bad_alloc();
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  Compiled result;
  result.code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                  kOptions, &result.error, &result.offset, context.get()));
  return result;
}

std::string error_text(int error) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

}  // namespace

struct Regex::Code {
  CodePointer code;
  bool is_jitted;
};

struct RegexScratch::State {
  std::unique_ptr<pcre2_match_data, Deleter<pcre2_match_data_free>> match;
  std::unique_ptr<pcre2_match_context, Deleter<pcre2_match_context_free>> context;
  std::unique_ptr<pcre2_jit_stack, Deleter<pcre2_jit_stack_free>> stack;
};

// One pair of offsets is enough: only the whole match is asked for.
RegexScratch::RegexScratch() : state_(std::make_unique<State>()) {
  state_->match.reset(pcre2_match_data_create(1, nullptr));
  state_->context.reset(pcre2_match_context_create(nullptr));
  state_->stack.reset(pcre2_jit_stack_create(kSmallestStack, kLargestStack, nullptr));
  // Without the JIT compiler there is no stack for it either.
  if (state_->match == nullptr || state_->context == nullptr) throw std::bad_alloc();
  pcre2_jit_stack_assign(state_->context.get(), nullptr, state_->stack.get());
  pcre2_set_match_limit(state_->context.get(), kMatchLimit);
  pcre2_set_heap_limit(state_->context.get(), kHeapLimit);
}

RegexScratch::~RegexScratch() = default;
RegexScratch::RegexScratch(RegexScratch&&) noexcept = default;
RegexScratch& RegexScratch::operator=(RegexScratch&&) noexcept = default;

Regex::Regex(std::string_view pattern, std::string_view where) : pattern_(pattern) {
  Compiled compiled = compile(to_pcre(pattern, where));
  if (compiled.code == nullptr) {
    throw Error{ErrorKind::usage, fmt::format("{}: the pattern can't be compiled ({}): {}", where,
                                              error_text(compiled.error), pattern)};
  }
  const int jit = pcre2_jit_compile(compiled.code.get(), PCRE2_JIT_COMPLETE);
  code_ = std::make_unique<const Code>(Code{std::move(compiled.code), jit == 0});
}

Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;

std::optional<Match> Regex::find(std::string_view text, std::size_t from,
                                 RegexScratch& scratch) const {
  const auto match = code_->is_jitted ? pcre2_jit_match : pcre2_match;
  RegexScratch::State& state = *scratch.state_;
  // An empty view may have no address, which PCRE2 takes for a mistake.
  const char* data = text.data() == nullptr ? "" : text.data();
  const int result = match(code_->code.get(), reinterpret_cast<PCRE2_SPTR>(data), text.size(), from,
                           PCRE2_NO_UTF_CHECK, state.match.get(), state.context.get());
  if (result == PCRE2_ERROR_NOMATCH) return std::nullopt;
  if (result < 0) {
    throw Error{ErrorKind::damaged,
                fmt::format("the pattern {} gives up on a text of {} bytes ({}); use a simpler one",
                            pattern_, text.size(), error_text(result))};
  }
  const PCRE2_SIZE* offsets = pcre2_get_ovector_pointer(state.match.get());
  // \K in a look-ahead can put the start of a match behind its end.
  if (offsets[0] < from || offsets[0] > offsets[1]) {
    throw Error{ErrorKind::damaged,
                fmt::format("the pattern {} gives a match that ends before it begins", pattern_)};
  }
  return Match{offsets[0], offsets[1]};
}

std::optional<Match> MatchIterator::next() {
  while (from_ <= text_.size()) {
    const std::optional<Match> match = regex_.find(text_, from_, scratch_);
    if (!match) break;
    from_ = match->end;
    if (match->begin != match->end || last_end_ != match->end) {
      last_end_ = match->end;
      return match;
    }
    if (from_ == text_.size()) break;
    next_code_point(text_, from_);
  }
  from_ = text_.size() + 1;
  return std::nullopt;
}

bool is_pcre_pattern(const std::string& pattern) { return compile(pattern).code != nullptr; }

}  // namespace zaya
