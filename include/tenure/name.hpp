// name.hpp: names that are unique in the whole program, and the paths made from them.
//
//   inline const tenure::Name book{"book"}, chapter{"chapter"};  // at namespace scope, in a header
//
//   book, book()             book                every book
//   book(3)                  book/3              one segment per argument, as in Path::of
//   book(3, "x")             book/3/x
//   book(3) / chapter(7)     book/3/chapter/7
//   book.shared()            book:shared         a claim; a bare name is an exclusive one
//
//   text of the name is | another definition of it comes          | a definition of it goes
//   --------------------+-----------------------------------------+-------------------------
//   free                | defined, once                           | -
//   defined n times     | the same definition: defined n+1 times  | defined n-1 times; free
//                       | any other: the program ends, with both  | when that is none
//                       | source locations on standard error      |
//
// "The same definition" is what a program and its plug-in get from one header: equal last component
// of the file's name, equal line and, where the compiler is the same, equal column.
//
// Invariants
//   1. Two names that live at the same time in one process and have the same text are the same
//      definition, whichever library each is in and however those are linked.
//   2. The registry works before and after everything else: no constructor or destructor is its
//      own.
//   3. Nothing in the registry outlives the library it came from: a name's destructor takes it out.
//
// Thread safety: any thread may define, use and destroy names (dlopen, dlclose) at any time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

#include "tenure/claim.hpp"
#include "tenure/path.hpp"

namespace tenure {

namespace detail {

// One definition, linked into the registry for as long as its Name lives. Other copies of Tenure in
// the process read it, older and newer ones too: the layout is fixed (see src/name/README.md).
struct NameRecord {
  NameRecord* next = nullptr;  // Guarded by the registry's lock.
  const char* text = nullptr;
  std::size_t size = 0;
  const char* file = nullptr;
  std::uint32_t line = 0;
  std::uint32_t column = 0;
  std::uint32_t compiler = 0;  // Whose columns: clang's and gcc's differ for the same text.
};

void enroll(NameRecord& record) noexcept;    // Ends the program if the name is another's.
void withdraw(NameRecord& record) noexcept;  // Requires: enrolled.

}  // namespace detail

class Name {
 public:
  // A string literal and where it stands. Any bytes, but at least one.
  class Literal;

  explicit Name(const Literal& text);
  ~Name() { detail::withdraw(record_); }
  Name(const Name&) = delete;
  Name(Name&&) = delete;
  Name& operator=(const Name&) = delete;
  Name& operator=(Name&&) = delete;
  // A name that is never destroyed would dangle in the registry when its library is unloaded.
  static void* operator new(std::size_t) = delete;
  static void* operator new[](std::size_t) = delete;

  template <class... Args>
  [[nodiscard]] Path operator()(const Args&... args) const {
    Path path = path_;
    (path.append_value(args), ...);
    return path;
  }

  [[nodiscard]] const Path& path() const noexcept { return path_; }
  operator const Path&() const noexcept { return path_; }  // NOLINT(google-explicit-constructor)

  [[nodiscard]] Claim exclusive() const { return path_.exclusive(); }
  [[nodiscard]] Claim shared() const { return path_.shared(); }
  [[nodiscard]] Claim group(std::string_view name) const { return path_.group(name); }
  [[nodiscard]] Claim group(std::string_view name, std::uint32_t limit) const {
    return path_.group(name, limit);
  }
  [[nodiscard]] Claim permits(std::uint32_t limit) const { return path_.permits(limit); }

 private:
  Path path_;                          // Built once: a call only copies and appends.
  mutable detail::NameRecord record_;  // Names are const; the link to the next one is not.
};

class Name::Literal {
 public:
  // consteval: the text and the file's name live as long as the library they are in, so that the
  // registry can point at them.
  template <std::size_t N>
  consteval Literal(const char (&text)[N],  // NOLINT(*-explicit-constructor,*-c-arrays)
                    std::source_location where = std::source_location::current())
      : text_(text, N - 1), where_(where) {
    static_assert(N > 1, "a name needs at least one character");
    static_assert(N - 1 <= Path::max_bytes - 2, "a name is limited to 4094 bytes: shorten it");
#if defined(__clang__)
    compiler_ = 1;
#endif
  }

 private:
  friend class Name;
  std::string_view text_;
  std::source_location where_;
  std::uint32_t compiler_ = 0;
};

inline Name::Name(const Literal& text)
    : path_(Path::of(text.text_)),
      record_{.text = text.text_.data(),
              .size = text.text_.size(),
              .file = text.where_.file_name(),
              .line = text.where_.line(),
              .column = text.where_.column(),
              .compiler = text.compiler_} {
  detail::enroll(record_);
}

struct NameInfo {
  std::string name;
  std::string file;  // Of the definition that was registered first, as its compiler had it.
  std::uint32_t line = 0;
  std::uint32_t column = 0;
  std::size_t definitions = 0;  // More than one: several libraries include the same header.
  friend bool operator==(const NameInfo&, const NameInfo&) = default;
};

// Every name that is registered in this process now, by name.
[[nodiscard]] std::vector<NameInfo> names();

}  // namespace tenure
