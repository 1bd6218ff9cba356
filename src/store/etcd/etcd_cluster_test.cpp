// Several servers, and servers with TLS.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "store/conformance.hpp"
#include "store/etcd/etcd_store.hpp"
#include "store/etcd/etcd_test.hpp"

#include <unistd.h>

namespace tenure::etcd {
namespace {

using conformance::Bell;
using conformance::txn;

// --- three members

class Cluster {
 public:
  Cluster() {
    std::string members;
    for (Server::Options& one : options_) {
      one.name = "m" + std::to_string(&one - options_.data());
      members += (members.empty() ? "" : ",") + one.name +
                 "=http://127.0.0.1:" + std::to_string(one.peer_port);
    }
    for (Server::Options& one : options_) {
      one.cluster = members;
      servers_.push_back(std::make_unique<Server>(one));
    }
    for (const auto& server : servers_) server->await_ready();
  }

  [[nodiscard]] Server& operator[](std::size_t index) { return *servers_[index]; }
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
  std::array<Server::Options, 3> options_;
  std::vector<std::unique_ptr<Server>> servers_;
};

// Each with a key of its own, so that one of unknown outcome may be made again.
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
  // The one that the store talks to first, then whoever leads.
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
  // openssl ca, since nothing else makes a certificate that has expired.
  void make(const std::string& name, const std::string& by, const std::string& from,
            const std::string& to) const {
    const std::string request = directory_ / (name + ".csr");
    run({"openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
         "-subj", "/CN=" + name, "-keyout", key(name), "-out", request});
    const std::string config = directory_ / "ca.cnf";
    std::ofstream{config} << "[ca]\ndefault_ca=d\n[d]\ndatabase=" << directory_ / "index"
                          << "\nnew_certs_dir=" << directory_ / "" << "\nrand_serial=yes\n"
                          << "default_md=sha256\npolicy=p\nunique_subject=no\n"
                          << "x509_extensions=x\n[p]\ncommonName=supplied\n[x]\n"
                          << "subjectAltName=IP:127.0.0.1\n";
    std::ofstream{directory_ / "index", std::ios::app};
    run({"openssl", "ca", "-batch", "-config", config, "-in", request, "-out", cert(name),
         "-notext", "-cert", cert(by), "-keyfile", key(by), "-startdate", from, "-enddate", to});
  }
  const Directory directory_;
};

Server::Options with_tls(const Certificates& made, const std::string& name) {
  Server::Options options;
  options.tls = true;
  options.words = {"--cert-file=" + made.cert(name), "--key-file=" + made.key(name)};
  return options;
}

// A short timeout is for those that can't work, however long one waits.
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
  const Server server{with_tls(made, "server")};
  const std::string url = server.url("p");
  EXPECT_TRUE(works(url + "?ca=" + made.cert("ca")));
  EXPECT_FALSE(works(url + "?ca=" + made.cert("stranger"), "1s"));
  EXPECT_FALSE(works(url + "?tls=yes", "1s"));
  EXPECT_FALSE(works("etcd://" + server.endpoint() + "/p?tls=no", "1s"));
  EXPECT_FALSE(works(url + "?ca=/nowhere", "1s"));
}

TEST(EtcdTls, NotWithOneThatHasExpired) {
  const Certificates made;
  const Server server{with_tls(made, "expired")};
  EXPECT_FALSE(works(server.url("p") + "?ca=" + made.cert("ca"), "1s"));
}

TEST(EtcdTls, Mutual) {
  const Certificates made;
  Server::Options options = with_tls(made, "server");
  options.words.push_back("--client-cert-auth=true");
  options.words.push_back("--trusted-ca-file=" + made.cert("ca"));
  const Server server{options};
  const std::string url = server.url("p") + "?ca=" + made.cert("ca");
  EXPECT_TRUE(works(url + "&cert=" + made.cert("client") + "&key=" + made.key("client")));
  EXPECT_FALSE(works(url, "1s"));
  EXPECT_FALSE(
      works(url + "&cert=" + made.cert("stranger") + "&key=" + made.key("stranger"), "1s"));
}

}  // namespace
}  // namespace tenure::etcd
