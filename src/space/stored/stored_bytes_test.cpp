// Any bytes in what people name, and any bytes that others wrote among the tickets.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/escape.hpp"
#include "space/stored/keys.hpp"
#include "space/stored/row.hpp"
#include "space/stored/rows.hpp"
#include "tenure/memory_store.hpp"
#include "tenure/tenure.hpp"

namespace tenure::stored {
namespace {

using namespace std::chrono_literals;
using namespace std::string_literals;

const Path book = Path::of("book");

// Latin-1, half a character, a surrogate, an overlong form, zero, what JSON escapes, what moves a
// cursor; and all bytes.
std::vector<std::string> hostile_texts() {
  std::vector<std::string> texts = {"caf\xe9", "\xc3",        "\xed\xa0\x80",    "\xc0\xaf",
                                    "a\0b"s,   "\"\\\n\x1b[", "\xf4\x90\x80\x80"};
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  texts.push_back(all);
  return texts;
}

class StoredBytes : public ::testing::Test {
 protected:
  void plant(const std::string& key, const std::string& value) {
    Txn txn;
    txn.writes.push_back(Write::put(key, value));
    store->apply(txn);
  }
  [[nodiscard]] std::vector<Entry> entries(const Range& range) {
    Txn txn;
    txn.reads.push_back(range);
    return store->apply(txn).reads.front();
  }

  std::shared_ptr<MemoryStore> store =
      std::make_shared<MemoryStore>(MemoryStore::Clock::virtual_time);
  Space space = open(store);
};

TEST_F(StoredBytes, NamesOfAnyBytesReachEveryListing) {
  for (const std::string& text : hostile_texts()) {
    SCOPED_TRACE(Path::of(text).text());
    SessionOptions options;
    options.label = text;
    const Space theirs = open(store, options);
    const Claim claim = Path::of(text).group(text, 2);
    Hold hold = theirs.as(text).label(text).lock(claim);
    EXPECT_FALSE(space.try_lock(Path::of(text)));
    EXPECT_FALSE(space.as("x").try_lock_for(Path::of(text), 0ms));
    const std::vector<TicketInfo> infos = space.inspect();
    ASSERT_EQ(infos.size(), 1U);
    EXPECT_EQ(infos.front().ticket.claims, std::vector{claim});
    EXPECT_EQ(infos.front().ticket.owner, Owner{text});
    EXPECT_EQ(infos.front().label, as_utf8(text));
    EXPECT_EQ(infos.front().fault, "");
    EXPECT_TRUE(space.evict_now(hold.token()));
    EXPECT_FALSE(hold.release());
  }
}

// Other programs read the entries as JSON: SQL views, jq, the operator's own tools.
TEST_F(StoredBytes, EntriesAreJsonThatAnyToolReads) {
  for (const std::string& text : hostile_texts()) {
    SCOPED_TRACE(Path::of(text).text());
    SessionOptions options;
    options.label = text;
    const Space theirs = open(store, options);
    const Hold hold = theirs.as(text).label(text).lock({Path::of(text), book.group(text)});
    std::vector<Entry> all = entries(rows_range());
    for (Entry& session : entries(Range::prefix(std::string{session_prefix}))) {
      all.push_back(std::move(session));
    }
    ASSERT_GE(all.size(), 4U);
    for (const Entry& entry : all) {
      EXPECT_TRUE(nlohmann::json::accept(entry.value)) << entry.value;
      EXPECT_EQ(entry.value.find("\\u0000"), std::string::npos) << "PostgreSQL's jsonb has no zero";
    }
  }
}

// As versions before this one wrote them.
TEST_F(StoredBytes, ALabelThatIsNotUtf8IsRead) {
  Hold hold = space.label("LABEL").lock(book);
  const Entry entry = entries(rows_range()).front();
  std::string value = entry.value;
  value.replace(value.find("LABEL"), 5, "caf\xe9");
  plant(entry.key, value);
  Space other = open(store);
  EXPECT_FALSE(other.try_lock(book));
  ASSERT_EQ(other.inspect().size(), 1U);
  EXPECT_EQ(other.inspect().front().label, "caf%E9");
  EXPECT_EQ(other.inspect().front().fault, "");
  EXPECT_TRUE(other.evict(hold.token()));
  ASSERT_EQ(other.inspect().size(), 1U) << "it has a second";
  store->advance(2s);
  EXPECT_TRUE(other.lock(book).release());
}

TEST_F(StoredBytes, ASessionThatIsNotUtf8IsListed) {
  plant(std::string{session_prefix} + "\xff", "{\"host\":\"caf\xe9\",\"pid\":7}");
  const SessionRow row = parse_session(
      {std::string{session_prefix} + "\xff", "{\"host\":\"caf\xe9\",\"pid\":7}", {}, {}});
  EXPECT_EQ(row.host, "caf%E9");
  EXPECT_EQ(row.pid, 7);
  EXPECT_TRUE(open(store).lock(book).release());
}

// Each of these names one ticket, and evict() of that removes all of it.
TEST_F(StoredBytes, EvictRemovesWhatCannotBeRead) {
  const Claim member = book.permits(3);
  const std::vector<std::pair<Claim, std::string>> cases = {
      {book.exclusive(), "\xff"},
      {book.shared(), "{}"},
      {member, R"({"session":"x","first":["nothing"]})"},
      {Path{}.exclusive(), R"({"session":"x","request":0,"claims":[["film"]],"since":0})"},
      {book.group("\xff"), R"({"session":"x","request":0,"claims":[["a"],["a"]],"since":0})"},
  };
  std::uint64_t number = 1'000'000;
  for (const auto& [claim, value] : cases) plant(row_key(claim, Token{++number}), value);
  const std::vector<TicketInfo> infos = space.inspect();
  ASSERT_EQ(infos.size(), cases.size());
  for (const TicketInfo& info : infos) {
    EXPECT_NE(info.fault, "");
    EXPECT_EQ(info.ticket.claims.size(), 1U);
    EXPECT_TRUE(space.evict(info.ticket.number));
    EXPECT_FALSE(space.evict(info.ticket.number));
  }
  EXPECT_TRUE(entries(rows_range()).empty());
  EXPECT_TRUE(space.lock(Path{}).release());
}

// The entry of the whole ticket is damaged: its further claims would be in the way for ever.
TEST_F(StoredBytes, EvictRemovesAllClaimsOfADamagedTicket) {
  Hold hold = space.lock({book, Path::of("film")});
  plant(row_key(book, hold.token()), "{");
  ASSERT_EQ(space.inspect().size(), 1U);
  EXPECT_EQ(space.inspect().front().ticket.claims.size(), 2U);
  EXPECT_TRUE(space.evict(hold.token()));
  EXPECT_TRUE(entries(rows_range()).empty());
}

TEST_F(StoredBytes, KeysThatNoTicketHasAreFoundAndRemoved) {
  const std::string stamp_7 = stamp(Revision{7});
  const std::vector<std::string> keys = {
      "\x01"s,
      "\x01\x01\x04"s + "bo",
      "\x01\0"s + stamp(Revision{}),
      "\x01\0"s + stamp(this_apply),
      "\x01\x01\x04"s + "book\0abc"s,
      "\x01\x01\x84\0"s + "book\0"s + stamp_7,  // A second spelling of the length.
      "\x01\x02\x04"s + "book\0"s + stamp_7,
      "\x01\x01\xff\xff"s + "book\0"s + stamp_7,
      "\x02"s,
      "\x02\0\0\0\0"s + stamp_7,       // A group without a name.
      "\x02\0\x01g\x07\0"s + stamp_7,  // No such flag.
      "\x02\xff\xff"s + std::string(70'000, 'g') + "\0"s + stamp_7,
  };
  for (const std::string& key : keys) {
    EXPECT_FALSE(parse_key(key)) << Path::of(key.substr(0, 20)).text();
    plant(key, "{}");
  }
  try {  // Some of them are where tickets on the whole space are looked for.
    static_cast<void>(space.lock(Path::of("film")));
    FAIL();
  } catch (const StoreError& error) {
    EXPECT_NE(std::string_view{error.what()}.find("'tenure evict 0'"), std::string_view::npos)
        << error.what();
  }
  EXPECT_TRUE(space.inspect().empty());
  EXPECT_TRUE(space.evict(Token{}));
  EXPECT_TRUE(entries(rows_range()).empty());
  EXPECT_TRUE(space.lock(Path{}).release());
}

TEST(RowKeys, AreReadAsTheyWereWritten) {
  const Path deep = Path::of(std::string(200, 'x'), "", "\0\1"s, "caf\xe9");
  for (const Claim& claim : {Path{}.exclusive(), book.shared(), deep.group("\1\0"s),
                             deep.group(std::string(256, '\xff'), 1)}) {
    const auto parsed = parse_key(row_key(claim, Token{42}));
    ASSERT_TRUE(parsed);
    EXPECT_EQ(parsed->claim, claim);
    EXPECT_EQ(parsed->number, Token{42});
  }
}

}  // namespace
}  // namespace tenure::stored
