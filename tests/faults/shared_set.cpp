#include "tests/faults/shared_set.hpp"

#include <fcntl.h>
#include <libpq-fe.h>
#include <sys/file.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string_view>
#include <utility>

#include "tenure/fence.hpp"
#include "tests/kit/lock_client.hpp"

namespace tenure::faults {
namespace {

class InStore final : public SharedSet {
 public:
  InStore(std::shared_ptr<Store> store, bool guarded)
      : store_(std::move(store)), guarded_(guarded) {}

  std::optional<std::string> read(const Hold& /*hold*/) override { return look(); }
  bool write(const Hold& hold, const std::string& set) override {
    Txn txn;
    if (guarded_) txn.guards = hold.guard();
    txn.writes.push_back(Write::put("set", set));
    txn.durability = Durability::full;
    return store_->apply(txn).committed;
  }
  std::string look() override {
    Txn txn;
    txn.reads.push_back(Range::key("set"));
    const Outcome outcome = store_->apply(txn);
    return outcome.reads.front().empty() ? "" : outcome.reads.front().front().value;
  }

 private:
  const std::shared_ptr<Store> store_;
  const bool guarded_;
};

class InTable final : public SharedSet {
 public:
  // NOLINTNEXTLINE(bugprone-easily-swappable-parameters)
  InTable(const std::string& url, std::string schema)
      : connection_(PQconnectdb(url.c_str())), schema_(std::move(schema)) {}

  std::optional<std::string> read(const Hold& /*hold*/) override { return look(); }
  // As in docs/clusters.md. One message is one transaction.
  bool write(const Hold& hold, const std::string& set) override {
    std::string sql;
    for (const Guard& guard : hold.guard()) {
      const std::string seen =
          guard.revision.value == 0 ? "NULL" : std::to_string(guard.revision.value);
      sql += "SELECT " + schema_ + ".fence('\\x" + kit::hex(guard.range.from) + "'::bytea, " +
             seen + "::bigint); ";
    }
    return ask(sql + "UPDATE " + schema_ + "_set SET body='" + set + "'").has_value();
  }
  std::string look() override { return ask("SELECT body FROM " + schema_ + "_set").value_or(""); }

 private:
  struct Finish {
    void operator()(PGconn* connection) const noexcept { PQfinish(connection); }
  };
  struct Free {
    void operator()(PGresult* result) const noexcept { PQclear(result); }
  };

  // Nothing: refused, and rolled back.
  std::optional<std::string> ask(const std::string& sql) {
    const std::unique_ptr<PGresult, Free> result{PQexec(connection_.get(), sql.c_str())};
    if (PQresultStatus(result.get()) == PGRES_TUPLES_OK) return PQgetvalue(result.get(), 0, 0);
    if (PQresultStatus(result.get()) == PGRES_COMMAND_OK) return "";
    const char* const state = PQresultErrorField(result.get(), PG_DIAG_SQLSTATE);
    const std::string_view why = state == nullptr ? "" : state;
    // Errors of the fence, and of two concurrent transactions.
    if (why == "55000" || why == "40001") return std::nullopt;
    throw Error(PQerrorMessage(connection_.get()));
  }

  const std::unique_ptr<PGconn, Finish> connection_;
  const std::string schema_;
};

// The first line is the fence, the second the set.
class InFile final : public SharedSet {
 public:
  explicit InFile(std::string path) : path_(std::move(path)) {}

  std::optional<std::string> read(const Hold& hold) override { return admit(hold, nullptr); }
  bool write(const Hold& hold, const std::string& set) override {
    return admit(hold, &set).has_value();
  }
  std::string look() override {
    const Locked locked{path_};
    return text().second;
  }

 private:
  class Locked {
   public:
    explicit Locked(const std::string& path)
        : fd_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
      if (fd_ < 0 || ::flock(fd_, LOCK_EX) != 0) throw Error("can't lock " + path);
    }
    Locked(const Locked&) = delete;
    Locked& operator=(const Locked&) = delete;
    ~Locked() { ::close(fd_); }

   private:
    int fd_;
  };

  [[nodiscard]] std::pair<std::string, std::string> text() const {
    std::ifstream file{path_};
    std::pair<std::string, std::string> lines;
    std::getline(file, lines.first);
    std::getline(file, lines.second);
    return lines;
  }

  // What the file then contains; nothing: refused.
  std::optional<std::string> admit(const Hold& hold, const std::string* set) {
    const Locked locked{path_};
    auto [first, second] = text();
    Fence fence = first.empty() ? Fence{} : Fence::parse(first).value();
    if (!fence.admit(hold.token(), Mode::exclusive())) return std::nullopt;
    if (set != nullptr) second = *set;
    std::ofstream{path_} << fence.text() << '\n' << second << '\n';
    return second;
  }

  const std::string path_;
};

}  // namespace

std::unique_ptr<SharedSet> set_in_store(std::shared_ptr<Store> store, bool guarded) {
  return std::make_unique<InStore>(std::move(store), guarded);
}

// NOLINTNEXTLINE(bugprone-easily-swappable-parameters)
std::unique_ptr<SharedSet> set_in_table(const std::string& url, const std::string& schema) {
  return std::make_unique<InTable>(url, schema);
}

std::unique_ptr<SharedSet> set_in_file(const std::string& path) {
  return std::make_unique<InFile>(path);
}

}  // namespace tenure::faults
