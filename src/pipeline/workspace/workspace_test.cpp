#include "pipeline/workspace/workspace.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "tests/kit/message.hpp"
#include "tests/kit/scratch.hpp"

namespace tenure::pipeline {
namespace {

using Names = std::vector<std::string>;

Package package(const std::string& name, const std::string& more = "",
                const std::string& version = "1.2.3") {
  return parse_package(R"({"name":")" + name + R"(","version":")" + version + "\"" + more + "}",
                       "packages/" + name);
}
std::string needs(const std::string& name, const std::string& range,
                  const std::string& section = "dependencies") {
  return ",\"" + section + "\":{\"" + name + "\":\"" + range + "\"}";
}
Manifest publish(std::vector<Package> packages, Catalogs catalogs = {},
                 const PublishOptions& options = {}) {
  return publish_manifest(
      {.root = "/w", .packages = std::move(packages), .catalogs = std::move(catalogs)}, options);
}
std::string refusal(std::vector<Package> packages) {
  return kit::message_of<WorkspaceError>([&] { (void)publish(std::move(packages)); });
}
// What a dependency of a on b becomes; empty: it stays.
std::string pinned(const std::string& range, const std::string& section = "dependencies") {
  const Manifest manifest = publish({package("a", needs("b", range, section)), package("b")});
  const Task& task = manifest.tasks.at(0);
  return task.edits.empty() ? "" : task.edits[0].set.at(0).value;
}

TEST(Workspace, PublishesInTheOrderOfDependencies) {
  const Manifest manifest = publish({package("a", needs("b", "^1.0.0")),
                                     package("b", needs("c", "1.x", "peerDependencies")),
                                     package("c", needs("a", "workspace:*", "devDependencies")),
                                     package("d", needs("a", "^2.0.0"))});
  ASSERT_EQ(manifest.tasks.size(), 4U);
  EXPECT_EQ(manifest.tasks[0].needs, Names{"b"});
  EXPECT_EQ(manifest.tasks[1].needs, Names{"c"});
  EXPECT_EQ(manifest.tasks[2].needs, Names{}) << "devDependencies make no order";
  EXPECT_EQ(manifest.tasks[3].needs, Names{}) << "the registry's copy is meant";
  EXPECT_EQ(manifest.tasks[0].dir, "packages/a");
  EXPECT_EQ(manifest.tasks[0].run.words, (Names{"npm", "publish"}));
  EXPECT_TRUE(manifest.tasks[0].edits.empty()) << "an ordinary range stays";
}

TEST(Workspace, PinsWhatRegistriesDoNotUnderstand) {
  EXPECT_EQ(pinned("workspace:*"), R"("1.2.3")");
  EXPECT_EQ(pinned("workspace:^"), R"("^1.2.3")");
  EXPECT_EQ(pinned("workspace:~"), R"("~1.2.3")");
  EXPECT_EQ(pinned("workspace:>=1 <2"), R"(">=1 <2")");
  EXPECT_EQ(pinned("workspace:../b"), R"("1.2.3")");
  EXPECT_EQ(pinned("*"), R"("1.2.3")");
  EXPECT_EQ(pinned("file:../b"), R"("1.2.3")");
  EXPECT_EQ(pinned("link:../b/"), R"("1.2.3")");
  EXPECT_EQ(pinned("workspace:^", "devDependencies"), R"("^1.2.3")");
  EXPECT_EQ(pinned("^1.0.0"), "");
  EXPECT_EQ(pinned("^2.0.0"), "");
  const Manifest aliased = publish({package("a", needs("bee", "workspace:b@^")), package("b")});
  EXPECT_EQ(aliased.tasks[0].edits[0].set[0].value, R"("npm:b@^1.2.3")");
  EXPECT_EQ(aliased.tasks[0].needs, Names{"b"});
  const Manifest scoped = publish({package("@s/a", needs("@s/b", "workspace:^")), package("@s/b")});
  EXPECT_EQ(scoped.tasks[0].edits[0].set[0].key, (Names{"dependencies", "@s/b"}));
}

TEST(Workspace, TakesRangesFromCatalogs) {
  const Catalogs catalogs{{"", {{"x", "^5.0.0"}, {"b", "workspace:^"}}}, {"old", {{"x", "^4"}}}};
  const Manifest manifest =
      publish({package("a", needs("x", "catalog:")), package("b", needs("x", "catalog:old")),
               package("c", needs("b", "catalog:default"))},
              catalogs);
  EXPECT_EQ(manifest.tasks[0].edits[0].set[0].value, R"("^5.0.0")");
  EXPECT_EQ(manifest.tasks[1].edits[0].set[0].value, R"("^4")");
  EXPECT_EQ(manifest.tasks[2].edits[0].set[0].value, R"("^1.2.3")");
  EXPECT_TRUE(kit::contains(refusal({package("a", needs("x", "catalog:none"))}),
                            "pnpm-workspace.yaml has no such entry"));
}

TEST(Workspace, RefusesWhatCannotBePublished) {
  EXPECT_EQ(refusal({package("a", needs("b", "*")), package("b", ",\"private\":true")}),
            "packages/a/package.json: it needs 'b', which is private: publish that too, or make "
            "this package private");
  EXPECT_TRUE(kit::contains(refusal({package("a", needs("b", "workspace:*"))}),
                            "the workspace has no package 'b'"));
  EXPECT_TRUE(kit::contains(refusal({package("a", needs("b", "workspace:^2")), package("b")}),
                            "which the local version '1.2.3' does not match"));
  EXPECT_TRUE(kit::contains(refusal({package("a"), package("a")}), "is also in"));
  EXPECT_TRUE(kit::contains(refusal({package("a", "", "1.2")}), "is not MAJOR.MINOR.PATCH"));
  EXPECT_TRUE(kit::contains(refusal({package("a'; rm")}), "the name can't be published"));
  EXPECT_TRUE(kit::contains(refusal({package("a", ",\"private\":true")}), "no package to publish"));
}

// S20: packages in a dependency cycle vanished, and the run said ok.
TEST(Workspace, S20_ACycleIsAnErrorThatPrintsIt) {
  EXPECT_EQ(refusal({package("z", needs("a", "*")), package("a", needs("b", "*")),
                     package("b", needs("a", "*"))}),
            "packages/a/package.json: the packages need each other: a needs b needs a: remove one "
            "of these dependencies, or make it a devDependency");
}

TEST(Workspace, AsksTheRegistryWhetherAVersionIsThere) {
  const Manifest manifest = publish(
      {package("@s/a")}, {}, {.command = {"npm", "publish"}, .registry = "http://127.0.0.1:1"});
  EXPECT_EQ(std::get<HttpCheck>(manifest.tasks[0].done->what).url,
            "http://127.0.0.1:1/@s%2fa/1.2.3");
}

TEST(Workspace, MatchesPatterns) {
  EXPECT_TRUE(matches_pattern("packages/*", "packages/a"));
  EXPECT_TRUE(matches_pattern("./packages/*/", "packages/a"));
  EXPECT_FALSE(matches_pattern("packages/*", "packages/a/b"));
  EXPECT_FALSE(matches_pattern("packages/*", "packages"));
  EXPECT_TRUE(matches_pattern("packages/**", "packages/a/b"));
  EXPECT_TRUE(matches_pattern("**/test-*", "a/b/test-x"));
  EXPECT_FALSE(matches_pattern("**/test-*", "a/b/tes"));
  EXPECT_TRUE(matches_pattern("a?c", "abc"));
}

void write(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream{path} << text;
}

Names found_in(const std::filesystem::path& root) {
  Names names;
  for (const Package& one : read_workspace(root).packages) names.push_back(one.name);
  return names;
}

TEST(Workspace, FindsThePackagesOfNpmYarnAndPnpm) {
  const kit::TemporaryDirectory directory;
  const std::filesystem::path root = directory.path();
  for (const std::string name : {"a", "b", "old"}) {
    write(root / "packages" / name / "package.json", R"({"name":")" + name + R"("})");
  }
  write(root / "packages/a/node_modules/x/package.json", R"({"name":"x"})");
  std::filesystem::create_directories(root / "packages/empty");
  EXPECT_THROW((void)read_workspace(root), WorkspaceError);
  write(root / "package.json", R"({"name":"root","workspaces":["packages/**","!packages/old"]})");
  EXPECT_EQ(found_in(root), (Names{"a", "b"}));
  write(root / "package.json", R"({"name":"root","workspaces":{"packages":["packages/*"]}})");
  EXPECT_EQ(found_in(root), (Names{"a", "b", "old"}));
  write(root / "pnpm-workspace.yaml",
        "packages:\n  - 'packages/*'\n  - '!packages/b'\ncatalog:\n  x: ^1\ncatalogs:\n  old:\n"
        "    x: ^0\n");
  EXPECT_EQ(found_in(root), (Names{"root", "a", "old"}));
  EXPECT_EQ(read_workspace(root).catalogs.at("old").at("x"), "^0");
  write(root / "pnpm-workspace.yaml", "packages: [a\n");
  EXPECT_TRUE(kit::contains(kit::message_of<WorkspaceError>([&] { (void)read_workspace(root); }),
                            "pnpm-workspace.yaml:2:1: "));
  write(root / "packages/a/package.json", R"({"name":5})");
  std::filesystem::remove(root / "pnpm-workspace.yaml");
  EXPECT_EQ(kit::message_of<WorkspaceError>([&] { (void)read_workspace(root); }),
            "packages/a/package.json: `name` must be a text");
}

}  // namespace
}  // namespace tenure::pipeline
