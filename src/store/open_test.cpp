// Which store a URL names, and which part of a URL may be shown.
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "tenure/store.hpp"
#include "tenure/tenure.hpp"

namespace tenure {
namespace {

std::string refusal(void (*call)(std::string_view), std::string_view url) {
  try {
    call(url);
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

void open_space(std::string_view url) { static_cast<void>(open(url)); }
void open_store(std::string_view url) { static_cast<void>(store(url)); }
void repair_store(std::string_view url) { repair(url); }

TEST(Url, IsShownWithoutSecrets) {
  EXPECT_EQ(shown_url("postgres://me:secret@host:5433/shop?sslpassword=secret"),
            "postgres://me@host:5433/shop");
  EXPECT_EQ(shown_url("postgres://host/shop?password=hun@ter"), "postgres://host/shop");
  EXPECT_EQ(shown_url("postgres://me:secret@host/shop?no_such_word=1"), "postgres://...@host/shop");
  EXPECT_EQ(shown_url("mysql://me:secret@host/shop"), "mysql://...@host/shop");
  EXPECT_EQ(shown_url("mysql://host/shop?password=secret"), "mysql://host/shop");
  EXPECT_EQ(shown_url("etcd://a:2379,[::1]:2379,c/x"), "etcd://a:2379,[::1]:2379,c/x");
  EXPECT_EQ(shown_url("sqlite:app.db"), "sqlite:app.db");
  EXPECT_EQ(shown_url("sqlite:/a@b/c=d?.db"), "sqlite:/a@b/c=d?.db");
  EXPECT_EQ(shown_url("local:"), "local:");
  EXPECT_EQ(shown_url("app.db"), "app.db");
}

// Each is misspelt in another way. The password is hun, ter or both.
const std::vector<std::string_view> misspelt = {
    "postgress://me:hunter@db/ops",
    "Postgres://me:hunter@db/ops",
    "etcd3://me:hunter@a:2379/x",
    "postgres://h/db?password=hun@ter&bogus=1",
    "postgress://h/db?password=hun@ter&bogus=1",
    "postgres://h?password=hun@ter",
    "postgres://me:hun@ter@db/ops",
    "postgres://me:hun/ter@db/ops",
    "postgress://me:hun@ter@db/ops",
    "postgress://me:hun/ter@db/ops",
    "postgress://me:hun?ter@db/ops",
    "postgress://me:hunter/ops",
    "postgres://me:hunter/ops",
    "postgres:me:hunter@db/ops",
    "postgres:/me:hunter@db/ops",
    "host=db user=me password=hunter",
    "etcd://me:hun?ter=1@a/x",
    "etcd://me:1?hunter=1@a/x",
    "etcd://me:hunter/x",
    "etcd://me:hun/ter@a/x",
};

TEST(Url, IsNeverSaidWithItsPassword) {
  for (const std::string_view url : misspelt) {
    for (const std::string& said : {shown_url(url), refusal(open_space, url),
                                    refusal(open_store, url), refusal(repair_store, url)}) {
      EXPECT_NE(said, "none") << url;
      EXPECT_EQ(said.find("hun"), std::string::npos) << url << " -> " << said;
      EXPECT_EQ(said.find("ter@"), std::string::npos) << url << " -> " << said;
      EXPECT_EQ(said.find("ter&"), std::string::npos) << url << " -> " << said;
      EXPECT_EQ(said.find("'ter"), std::string::npos) << url << " -> " << said;
    }
  }
}

TEST(Url, OfNoKindNamesAllKinds) {
  for (const std::string& said :
       {refusal(open_space, "mysql://x"), refusal(open_store, "mysql://x")}) {
    for (const std::string_view kind :
         {"'sqlite:PATH'", "'postgres://HOST/DATABASE'", "'etcd://HOST:PORT,…/PREFIX'"}) {
      EXPECT_NE(said.find(kind), std::string::npos) << said;
    }
    EXPECT_NE(said.find("'mysql://x'"), std::string::npos) << said;
  }
  EXPECT_NE(refusal(open_space, "mysql://x").find("'local:'"), std::string::npos);
  EXPECT_NE(refusal(open_store, "mysql://x").find("'memory:'"), std::string::npos);
}

}  // namespace
}  // namespace tenure
