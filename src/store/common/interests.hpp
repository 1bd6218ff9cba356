// interests.hpp: what the watches of a process have to hear of, and which of it the server tells.
//
//   wanted --- hold() ---> held --- the last watch goes ---> unwanted --- drop() ---> gone
//     ^                     |                                   |
//     '------ lose() -------'------------- a watch comes -------'
//
// An interest is a key or a range, in the form in which the store can ask its server for changes.
// Each has a name, which the store makes from a range; several ranges may share one. If the watches
// want more than `most`, or want everything, one interest takes the place of all others: the one in
// every key.
//
// An interest in an entry that exists is dropped with the next call of the server. Any other one is
// kept for a while: its watches can't know what happened before it was held, so they are notified,
// read, and watch again. They must find it held then.
//
// Thread safety: none; the owner's mutex guards it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tenure/store.hpp"

namespace tenure::stores {

class Interests {
 public:
  using NameOf = std::function<std::string(const Range& range)>;
  using NameOfSession = std::function<std::string(const std::string& session)>;
  Interests(std::size_t most, NameOf name_of, NameOfSession name_of_session)
      : most_(most),
        name_of_(std::move(name_of)),
        name_of_session_(std::move(name_of_session)),
        everything_(name_of_({})) {}

  // A watch becomes armed, or ceases to be. Times are those of any one clock, in nanoseconds.
  void want(const WatchFor& what);
  void unwant(const WatchFor& what, std::int64_t now);

  // What the store should ask its server for.
  [[nodiscard]] std::vector<std::string> missing() const;
  // The server tells of every change after `since`. `id`: what the store needs to drop it.
  // `brief`: it need not be kept once it is unwanted.
  void hold(const std::string& name, std::int64_t id, Revision since, bool brief);
  // What the server should not tell any more, by id. `asking`: the server is being called anyway.
  [[nodiscard]] std::vector<std::int64_t> drop(std::int64_t now, bool asking);
  [[nodiscard]] std::vector<std::int64_t> drop_all();
  // When to call drop() at the latest.
  [[nodiscard]] std::optional<std::int64_t> drop_at() const;
  // None is held any more.
  void lose();

  // All changes in the range after this one are told. Nothing: not held yet.
  [[nodiscard]] std::optional<Revision> since(const Range& range) const;

  static constexpr std::int64_t brief_ns = 100'000'000;
  static constexpr std::int64_t lasting_ns = 5'000'000'000;

 private:
  struct Held {
    std::int64_t id;
    Revision since;
    bool brief;
  };
  struct Interest {
    std::size_t wants = 0;
    std::optional<Held> held;
    std::int64_t unwanted_at = 0;
  };
  void want(const std::string& name);
  void unwant(const std::string& name, std::int64_t now);
  [[nodiscard]] bool needs_everything() const { return wanted_ > most_ || !missing_.empty(); }

  const std::size_t most_;
  const NameOf name_of_;
  const NameOfSession name_of_session_;  // The interest in its end.
  const std::string everything_;
  std::unordered_map<std::string, Interest> all_;
  std::size_t wanted_ = 0;
  std::set<std::string> missing_;   // Wanted and not held.
  std::set<std::string> unwanted_;  // Held and not wanted.
};

}  // namespace tenure::stores
