// Several servers, and servers with TLS.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "store/conformance.hpp"
#include "store/etcd/etcd_store.hpp"
#include "tests/kit/etcd.hpp"

#include <unistd.h>

namespace tenure::etcd {
namespace {

using kit::Etcd;
using kit::run;

using conformance::Bell;
using conformance::txn;

// --- three members

class Cluster {
 public:
  Cluster() {
    std::string members;
    for (Etcd::Options& one : options_) {
      one.name = "m" + std::to_string(&one - options_.data());
      members += (members.empty() ? "" : ",") + one.name +
                 "=http://127.0.0.1:" + std::to_string(one.peer_port);
    }
    for (Etcd::Options& one : options_) {
      one.cluster = members;
      servers_.push_back(std::make_unique<Etcd>(one));
    }
    for (const auto& server : servers_) server->await_ready();
  }

  [[nodiscard]] Etcd& operator[](std::size_t index) { return *servers_[index]; }
  [[nodiscard]] std::string url() const {
    std::string all;
    for (const auto& server : servers_) all += (all.empty() ? "" : ",") + server->endpoint();
    return "etcd://" + all + "/p";
  }
  [[nodiscard]] std::size_t leader() {
    for (std::size_t i = 0; i < servers_.size(); ++i) {
      const std::string text = servers_[i]->etcdctl({"endpoint", "status"});
      // endpoint, id, version, size, leader, learner, …
      std::size_t at = 0;
      for (int comma = 0; comma < 4; ++comma) at = text.find(',', at) + 1;
      if (text.substr(at + 1, 4) == "true") return i;
    }
    throw Error("no leader");
  }

 private:
  std::array<Etcd::Options, 3> options_;
  std::vector<std::unique_ptr<Etcd>> servers_;
};

// Each with a key of its own, so that one with an unknown outcome can be repeated.
void put_at_last(Store& store, const std::string& key) {
  for (;;) {
    try {
      store.apply(txn({}, {Write::put(key, "")}));
      return;
    } catch (const StoreError&) {
      ::usleep(10'000);
    }
  }
}

TEST(EtcdCluster, GoesOnWithTheMembersThatAreLeft) {
  Cluster cluster;
  const auto store = open_etcd_alone(cluster.url());
  const auto other = open_etcd_alone(cluster.url());
  put_at_last(*store, "a");
  std::size_t made = 1;
  // First the member that the store talks to, then the leader.
  for (int round = 0; round < 2; ++round) {
    const std::size_t victim = round == 0 ? 0 : cluster.leader();
    Bell bell;
    WatchFor what;
    const std::string key = "round" + std::to_string(round);
    what.ranges.push_back(Range::key(key));
    what.after = other->apply({}).revision;
    const auto watch = other->watch(what, bell.notice());
    cluster[victim].kill();
    put_at_last(*store, key);
    ++made;
    bell.wait();
    cluster[victim].start();
    cluster[victim].await_ready();
  }
  EXPECT_EQ(store->apply(txn({}, {}, {conformance::everything()})).reads[0].size(), made);
}

TEST(EtcdCluster, MakesNoProgressWithoutAMajority) {
  Cluster cluster;
  const auto store = open_etcd_alone(cluster.url());
  put_at_last(*store, "a");
  cluster[0].kill();
  cluster[1].kill();
  EXPECT_THROW(store->apply(txn({}, {Write::put("b", "")})), StoreError);
  EXPECT_THROW(store->apply(txn({}, {}, {Range::key("a")})), StoreError);
  cluster[0].start();
  put_at_last(*store, "c");
}

std::vector<std::string> values(Store& store, const std::string& prefix) {
  std::vector<std::string> all;
  const Outcome outcome = store.apply(txn({}, {}, {Range::prefix(prefix)}));
  for (const Entry& entry : outcome.reads[0]) all.push_back(entry.value);
  return all;
}

// A member accepts a request and does not answer, and may commit it when it continues: the client
// asks the others about it.
TEST(EtcdCluster, AMemberThatIsStoppedCostsTimeOnly) {
  Cluster cluster;
  const auto store = open_etcd_alone(cluster.url() + "?timeout=10s");
  std::vector<std::string> made;
  for (std::size_t victim = 0; victim < 3; ++victim) {
    cluster[victim].signal(SIGSTOP);
    for (const char* const name : {"a", "b"}) {
      made.push_back(name + std::to_string(victim));
      const Outcome outcome =
          store->apply(txn({}, {Write::append("k", made.back())}, {Range::prefix("k")}));
      EXPECT_TRUE(outcome.committed);
      EXPECT_EQ(outcome.reads[0].size(), made.size());
      EXPECT_EQ(outcome.reads[0].back().created, outcome.revision);
    }
    cluster[victim].signal(SIGCONT);
  }
  EXPECT_EQ(values(*store, "k"), made);
}

TEST(EtcdCluster, RemovingByAMemberThatIsStoppedCostsTimeOnly) {
  Cluster cluster;
  const auto store = open_etcd_alone(cluster.url() + "?timeout=10s");
  for (std::size_t victim = 0; victim < 3; ++victim) {
    const Revision made =
        store->apply(txn({}, {Write::put("a", ""), Write::put("b", "")})).revision;
    cluster[victim].signal(SIGSTOP);
    const Outcome first =
        store->apply(txn({Guard::unchanged("a", made)}, {Write::remove("a")}, {Range::prefix("")}));
    const Outcome second = store->apply(txn({Guard::present("b")}, {Write::remove("b")}));
    EXPECT_TRUE(first.committed);
    EXPECT_EQ(first.reads[0].size(), 1U);
    EXPECT_TRUE(second.committed);
    EXPECT_LT(made, first.revision);
    EXPECT_LT(first.revision, second.revision);
    // A request that the stopped member may still have is not committed after this.
    store->apply(txn({}, {Write::put("a", "new")}));
    cluster[victim].signal(SIGCONT);
    cluster[victim].await_ready();
    EXPECT_EQ(store->apply(txn({}, {}, {Range::key("a")})).reads[0].size(), 1U);
    store->apply(txn({}, {Write::remove("a")}));
  }
}

// Whatever a member answers while it shuts down: an acknowledged append exists once, any other at
// most once.
TEST(EtcdCluster, NothingIsMadeTwiceWhileMembersEnd) {
  Cluster cluster;
  std::atomic<bool> stopping = false;
  std::vector<std::string> answered;
  int asked = 0;
  std::thread writer{[&] {
    const auto store = open_etcd_alone(cluster.url());
    for (; !stopping.load(); ++asked) {
      const std::string value = std::to_string(asked);
      try {
        store->apply(txn({}, {Write::append("k", value)}));
        answered.push_back(value);
      } catch (const StoreError&) {  // NOLINT(bugprone-empty-catch)
        // It may have been committed.
      }
    }
  }};
  for (std::size_t victim = 0; victim < 3; ++victim) {
    cluster[victim].kill(SIGTERM);
    cluster[victim].start();
    cluster[victim].await_ready();
  }
  stopping.store(true);
  writer.join();
  std::vector<std::string> all = values(*open_etcd_alone(cluster.url()), "k");
  std::ranges::sort(all);
  EXPECT_EQ(std::ranges::adjacent_find(all), all.end());
  for (const std::string& value : answered) {
    EXPECT_TRUE(std::ranges::binary_search(all, value)) << value;
  }
  EXPECT_GT(answered.size(), 0U);
}

// --- TLS

class Certificates {
 public:
  Certificates() {
    make_authority("ca");
    make_authority("stranger");
    make("server", "ca", "20200101000000Z", "20991231235959Z");
    make("expired", "ca", "20200101000000Z", "20200102000000Z");
    make("client", "ca", "20200101000000Z", "20991231235959Z");
  }
  [[nodiscard]] std::string cert(const std::string& name) const {
    return directory_ / (name + ".crt");
  }
  [[nodiscard]] std::string key(const std::string& name) const {
    return directory_ / (name + ".key");
  }

 private:
  void make_authority(const std::string& name) const {
    run({"openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-days", "3650", "-subj", "/CN=" + name, "-keyout", key(name), "-out",
         cert(name)});
  }
  // openssl ca, because no other command makes an expired certificate.
  void make(const std::string& name, const std::string& by, const std::string& from,
            const std::string& to) const {
    const std::string request = directory_ / (name + ".csr");
    run({"openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
         "-subj", "/CN=" + name, "-keyout", key(name), "-out", request});
    const std::string config = directory_ / "ca.cnf";
    std::ofstream{config} << "[ca]\ndefault_ca=d\n[d]\ndatabase=" << (directory_ / "index").string()
                          << "\nnew_certs_dir=" << directory_.path().string()
                          << "\nrand_serial=yes\n"
                          << "default_md=sha256\npolicy=p\nunique_subject=no\n"
                          << "x509_extensions=x\n[p]\ncommonName=supplied\n[x]\n"
                          << "subjectAltName=IP:127.0.0.1\n";
    std::ofstream{directory_ / "index", std::ios::app};
    run({"openssl", "ca", "-batch", "-config", config, "-in", request, "-out", cert(name),
         "-notext", "-cert", cert(by), "-keyfile", key(by), "-startdate", from, "-enddate", to});
  }
  const kit::Scratch directory_{"tenure-keys-"};
};

Etcd::Options with_tls(const Certificates& made, const std::string& name) {
  Etcd::Options options;
  options.tls = true;
  options.words = {"--cert-file=" + made.cert(name), "--key-file=" + made.key(name)};
  return options;
}

// A short timeout, because these attempts can never succeed.
bool works(const std::string& url, const std::string& timeout = "60s") {
  try {
    const auto store = open_etcd_alone(url + "&timeout=" + timeout);
    return store->apply(txn({}, {Write::put("a", "")})).committed;
  } catch (const StoreError&) {
    return false;
  }
}

TEST(EtcdTls, OnlyWithACertificateThatItTrusts) {
  const Certificates made;
  const Etcd server{with_tls(made, "server")};
  const std::string url = server.url("p");
  EXPECT_TRUE(works(url + "?ca=" + made.cert("ca")));
  EXPECT_FALSE(works(url + "?ca=" + made.cert("stranger"), "1s"));
  EXPECT_FALSE(works(url + "?tls=yes", "1s"));
  EXPECT_FALSE(works("etcd://" + server.endpoint() + "/p?tls=no", "1s"));
  EXPECT_FALSE(works(url + "?ca=/nowhere", "1s"));
}

TEST(EtcdTls, NotWithOneThatHasExpired) {
  const Certificates made;
  const Etcd server{with_tls(made, "expired")};
  EXPECT_FALSE(works(server.url("p") + "?ca=" + made.cert("ca"), "1s"));
}

TEST(EtcdTls, Mutual) {
  const Certificates made;
  Etcd::Options options = with_tls(made, "server");
  options.words.push_back("--client-cert-auth=true");
  options.words.push_back("--trusted-ca-file=" + made.cert("ca"));
  const Etcd server{options};
  const std::string url = server.url("p") + "?ca=" + made.cert("ca");
  EXPECT_TRUE(works(url + "&cert=" + made.cert("client") + "&key=" + made.key("client")));
  EXPECT_FALSE(works(url, "1s"));
  EXPECT_FALSE(
      works(url + "&cert=" + made.cert("stranger") + "&key=" + made.key("stranger"), "1s"));
}

}  // namespace
}  // namespace tenure::etcd
