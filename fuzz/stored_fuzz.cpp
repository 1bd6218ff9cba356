// A stored space among entries that others wrote: requests, listings, evictions and what `doctor`
// uses must work whatever is there.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "space/stored/keys.hpp"
#include "space/stored/row.hpp"
#include "space/stored/rows.hpp"
#include "tenure/memory_store.hpp"
#include "tenure/tenure.hpp"

namespace {

using tenure::Claim;
using tenure::Path;
using tenure::Token;
namespace stored = tenure::stored;

void require(bool holds, std::string_view what) {
  if (holds) return;
  std::cerr << "stored_fuzz: " << what << '\n';
  std::abort();
}

// Takes the input apart: a byte, or some bytes behind their count.
class Input {
 public:
  explicit Input(std::string_view bytes) : rest_(bytes) {}
  [[nodiscard]] bool empty() const { return rest_.empty(); }
  std::size_t number() {
    if (rest_.empty()) return 0;
    const auto byte = static_cast<unsigned char>(rest_.front());
    rest_.remove_prefix(1);
    return byte;
  }
  std::string text() {
    const std::string out{rest_.substr(0, number())};
    rest_.remove_prefix(std::min(rest_.size(), out.size()));
    return out;
  }

 private:
  std::string_view rest_;
};

// Most random bytes are neither a key nor JSON: half of what is planted is made of proper parts.
std::string key_of(Input& in) {
  const std::array<Claim, 6> claims = {Path{}.exclusive(),           Path::of("a").exclusive(),
                                       Path::of("a", "b").shared(),  Path::of("a").permits(2),
                                       Path::of("other").group("g"), Path::of(in.text()).shared()};
  const std::size_t kind = in.number() % (claims.size() + 3);
  if (kind >= claims.size()) {
    return static_cast<char>(kind - claims.size() + 1) + in.text();
  }
  return stored::row_key(claims.at(kind), Token{1 + (in.number() % 4)});
}

std::string value_of(Input& in) {
  constexpr std::array<std::string_view, 8> beginnings = {
      R"({"session":"0000000000000001","request":1,"since":1,"claims":)",
      R"({"session":"x","request":1,"since":1,"claims":[["a"],["a/b","shared"]])",
      R"({"session":"x","first":["a"])",
      R"({"session":"x","request":1,"since":-9,"claims":[["other","g"]],"label":)",
      R"({"format":2,"anchor":["key","k"],"by":"x","request":1,"since":1,"claims":[["a"]],"id":)",
      R"({"format":2,"anchor":["key","k"],"first":["a"])",
      R"({"session":"x","request":1,"since":1,"claims":[["a"]],"format":)",
      R"({"format":4,"session":"x","request":1,"since":1,"claims":[["other","g",2]],"kept":)",
  };
  const std::size_t kind = in.number() % (beginnings.size() + 1);
  if (kind == beginnings.size()) return in.text();
  return std::string{beginnings.at(kind)} + in.text() + "}";
}

// One for many inputs: each leaves it as it was.
struct World {
  std::shared_ptr<tenure::MemoryStore> store =
      std::make_shared<tenure::MemoryStore>(tenure::MemoryStore::Clock::virtual_time);
  tenure::Space space = tenure::open(store);

  void plant(const std::string& key, std::string value) const {
    tenure::Txn txn;
    txn.writes.push_back(tenure::Write::put(key, std::move(value)));
    store->apply(txn);
    if (!key.starts_with(tenure::session_prefix)) return;
    static_cast<void>(store->alive(std::string_view{key}.substr(1)));
    static_cast<void>(
        stored::parse_session({.key = key, .value = {}, .created = {}, .changed = {}}));
    static_cast<void>(tenure::open(store));  // Sweeps dead sessions.
    tenure::Txn remove;
    remove.writes.push_back(tenure::Write::remove(key));
    store->apply(remove);
  }
  [[nodiscard]] stored::Rows rows() const {
    tenure::Txn txn;
    txn.reads.push_back(stored::rows_range());
    return stored::read_rows(std::move(store->apply(txn).reads.front()));
  }
  // What a later version wrote cannot be evicted: the test removes it.
  void leave_alone(const stored::Unreadable& found) const {
    bool refused = false;
    try {
      static_cast<void>(space.evict(found.number));
    } catch (const tenure::StoreError&) {
      refused = true;
    }
    require(refused, "a ticket of a later version was evicted");
    tenure::Txn remove;
    for (const tenure::Entry& entry : found.entries) {
      remove.writes.push_back(tenure::Write::remove(entry.key));
    }
    store->apply(remove);
  }
  // A request is granted, waits, or says what to evict.
  void request(const Claim& claim, const std::string& name) const {
    try {
      auto hold = space.as(name).label(name).try_lock_for(claim, std::chrono::nanoseconds{0});
      if (hold) hold->release();
    } catch (const tenure::StoreError& error) {
      const std::string_view said = error.what();
      require(said.contains("'tenure evict ") || said.contains("newer version of Tenure"), said);
    } catch (const tenure::LimitMismatch&) {
      require(claim.mode.limit() != 0, "a limit clash without a limit");
    }
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // A space reads more the more groups it has met: a new one now and then.
  constexpr std::size_t inputs = 100;
  static std::size_t count = 0;
  static std::unique_ptr<World> shared;
  if (count++ % inputs == 0) shared = std::make_unique<World>();
  const World& world = *shared;
  const std::string bytes(data, data + size);
  Input in{bytes};
  const std::string name = in.text();
  for (int i = 0; i < 4 && !in.empty(); ++i) {
    std::string key = key_of(in);
    const bool own = key == std::string{tenure::session_prefix} + "0000000000000001";
    if (!own) world.plant(key, value_of(in));
  }
  world.request(Path::of("other", "path").exclusive(), name);
  world.request(Path::of("a").permits(3), name);
  world.request(Path::of("a").permits(3).take(2), name);
  for (const tenure::TicketInfo& info : world.space.inspect()) {
    require(!info.ticket.claims.empty(), "a ticket without claims");
  }
  for (const stored::Unreadable& found : world.rows().unreadable) {
    require(!found.why.empty() && !found.entries.empty(), "nothing is said of it");
    if (found.newer) {
      world.leave_alone(found);
    } else {
      require(world.space.evict(found.number), "not evicted");
    }
  }
  for (const tenure::TicketInfo& info : world.space.inspect()) {
    require(info.fault.empty(), "evicted, and still listed");
    static_cast<void>(world.space.evict(info.ticket.number));
    static_cast<void>(world.space.evict_now(info.ticket.number));
  }
  const stored::Rows left = world.rows();
  require(left.tickets.empty() && left.unreadable.empty(), "something is left");
  require(world.space.lock(Path{}).release(), "the whole space cannot be locked");
  return 0;
}
