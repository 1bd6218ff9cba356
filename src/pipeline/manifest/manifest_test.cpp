#include "pipeline/manifest.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "tests/kit/message.hpp"

namespace tenure::pipeline {
namespace {

using namespace std::chrono_literals;
using Names = std::vector<std::string>;

Manifest parse(std::string_view text, const ManifestOptions& options = {}) {
  return parse_manifest(text, "release.toml", options);
}

std::string refusal(std::string_view text, const ManifestOptions& options = {}) {
  return kit::message_of<ManifestError>([&] { (void)parse(text, options); });
}

Names names_of(const Manifest& manifest) {
  Names names;
  for (const Task& task : manifest.tasks) names.push_back(task.name);
  return names;
}

TEST(Manifest, ReadsATaskWithEveryKey) {
  const Manifest manifest = parse(R"(
jobs = 4
[defaults]
timeout = "10m"
env = { CI = true, LEVEL = 3 }
[task.build]
run = "npm run build"
[task.publish]
needs   = ["build"]
run     = ["npm", "publish"]
timeout = "5m"
grace   = "0s"
retry   = { max = 4, base = "2s", cap = "40s" }
locks   = ["registry/npm", "db/users:shared"]
edits   = [{ file = "package.json", set = { version = "9.9.9", "publishConfig.tag" = "next" } }]
done    = { http = "http://127.0.0.1:4873/pkg/9.9.9", status = 200 }
verify  = { run = ["test", "-e", "x"], timeout = "2m", every = "5s" }
when    = { run = "test -e package.json" }
env     = { LEVEL = "4" }
dir     = "packages/a"
tags    = ["release", "npm", "release"]
once    = true
)");
  EXPECT_EQ(manifest.jobs, 4U);
  ASSERT_EQ(names_of(manifest), (Names{"build", "publish"}));
  const Task& build = manifest.tasks[0];
  EXPECT_EQ(build.run, (Invocation{.words = {"npm run build"}, .shell = true}));
  EXPECT_EQ(build.timeout, 10min);
  EXPECT_EQ(build.position, (Position{.line = 6, .column = 7}));
  const Task& task = manifest.tasks[1];
  EXPECT_EQ(task.run, (Invocation{.words = {"npm", "publish"}}));
  EXPECT_EQ(task.needs, Names{"build"});
  EXPECT_EQ(task.timeout, 5min);
  EXPECT_EQ(task.grace, 0s);
  EXPECT_EQ(task.retry, (Retry{.max = 4, .base = 2s, .cap = 40s}));
  EXPECT_EQ(task.locks, (std::vector<Claim>{Path::of("registry", "npm").exclusive(),
                                            Path::of("db", "users").shared()}));
  ASSERT_EQ(task.edits.size(), 1U);
  EXPECT_EQ(task.edits[0].format, Edit::Format::json);
  EXPECT_EQ(task.edits[0].set,
            (std::vector<Edit::Set>{{.key = {"version"}, .value = R"("9.9.9")"},
                                    {.key = {"publishConfig", "tag"}, .value = R"("next")"}}));
  EXPECT_EQ(
      task.done->what,
      (std::variant<Invocation, HttpCheck>{HttpCheck{.url = "http://127.0.0.1:4873/pkg/9.9.9"}}));
  EXPECT_EQ(task.verify->timeout, 2min);
  EXPECT_EQ(task.verify->every, 5s);
  EXPECT_TRUE(task.when.has_value());
  EXPECT_EQ(task.env, (std::map<std::string, std::string>{{"CI", "true"}, {"LEVEL", "4"}}));
  EXPECT_EQ(task.dir, "packages/a");
  EXPECT_EQ(task.tags, (Names{"release", "npm"}));
  EXPECT_TRUE(task.once);
  EXPECT_FALSE(task.skip);
}

TEST(Manifest, SaysWhereAndWhatAndWhatToDo) {
  EXPECT_EQ(refusal("[task.a]\nrun = \"x\"\n  timeuot = \"5m\"\n"),
            "release.toml:3:3: unknown key 'timeuot' in a task (did you mean 'timeout'?): use run, "
            "needs, timeout, grace, retry, locks, edits, done, verify, when, env, dir, tags, once, "
            "matrix");
  EXPECT_EQ(refusal("[task.a]\n"),
            "release.toml:1:7: a task needs `run`: add a text for the shell, or an array of words");
  EXPECT_EQ(refusal("[task.a]\nrun = 5\n"),
            "release.toml:2:7: `run` must be a text for the shell, or an array of words");
  EXPECT_EQ(refusal("[task.a]\nrun = \"x\"\ntimeout = \"5\"\n"),
            "release.toml:3:11: `timeout`: '5' is not a duration: '5' has no unit; use ms, s, m, h "
            "or d");
  EXPECT_EQ(refusal("jobs = 0\n[task.a]\nrun = \"x\"\n"),
            "release.toml:1:8: `jobs` is 0: use a number from 1 to 10000");
  // Columns count characters, not bytes.
  EXPECT_TRUE(kit::contains(refusal("[task.a]\nrun = \"x\"\nenv = { A = \"é\", \"=\" = 1 }"),
                            "release.toml:3:18: '='"));
}

TEST(Manifest, RefusesBrokenTomlAndDuplicateKeys) {
  EXPECT_TRUE(kit::contains(refusal("[task.a]\nrun = \"x\nb"), "release.toml:2:"));
  EXPECT_TRUE(kit::contains(refusal("[task.a]\nrun = \"x\"\nrun = \"y\"\n"), "release.toml:3:"));
  EXPECT_TRUE(
      kit::contains(refusal("[task.a]\nrun = \"x\"\n[task.a]\nrun = \"y\"\n"), "release.toml:3:"));
  EXPECT_EQ(refusal(""), "release.toml:1:1: a manifest needs `task`: add tables: [task.NAME]");
  EXPECT_EQ(refusal("[task]\n"), "release.toml:1:1: there is no task: add [task.NAME]");
}

TEST(Manifest, RefusesNamesThatCannotBePrintedOrTyped) {
  for (const std::string name :
       {"''", "'a b'", "'a,b'", "'a[1]'", "\"a\\n\"", "\"\\u0000\"", "\"\\u202e\""}) {
    EXPECT_TRUE(
        kit::contains(refusal("[task." + name + "]\nrun = \"x\"\n"), "can't be the name of a task"))
        << name;
  }
  EXPECT_EQ(names_of(parse("[task.'@scope/é']\nrun = \"x\"\n")), Names{"@scope/é"});
}

// S20: packages in a dependency cycle vanished, and the run said ok.
TEST(Manifest, S20_ACycleIsAnErrorThatPrintsIt) {
  EXPECT_EQ(refusal("[task.d]\nrun='x'\nneeds=['b']\n[task.a]\nrun='x'\nneeds=['b']\n"
                    "[task.b]\nrun='x'\nneeds=['c']\n[task.c]\nrun='x'\nneeds=['a']\n"),
            "release.toml:4:7: the tasks need each other: a needs b needs c needs a: remove one of "
            "these `needs`");
  EXPECT_EQ(refusal("[task.a]\nrun='x'\nneeds=['a']\n"),
            "release.toml:1:7: the tasks need each other: a needs a: remove one of these `needs`");
}

TEST(Manifest, RefusesAnUnknownNeedWithTheNearestName) {
  EXPECT_EQ(refusal("[task.build]\nrun='x'\n[task.b]\nrun='x'\nneeds=['biuld']\n"),
            "release.toml:5:8: `needs` has 'biuld', and there is no such task (did you mean "
            "'build'?): add it, or remove the name");
}

// S23: a chain of 3,000 was too long for a search by recursion.
TEST(Manifest, S23_ALongChainIsReadWithoutRecursion) {
  std::string text = "[task.t0]\nrun='x'\n";
  constexpr int length = 5000;
  for (int i = 1; i < length; ++i) {
    text +=
        "[task.t" + std::to_string(i) + "]\nrun='x'\nneeds=['t" + std::to_string(i - 1) + "']\n";
  }
  EXPECT_EQ(parse(text).tasks.size(), 5000U);
  text += "[task.z]\nrun='x'\n";
  text.replace(text.find("run='x'"), 7, "run='x'\nneeds=['t" + std::to_string(length - 1) + "']");
  EXPECT_TRUE(kit::contains(refusal(text), "... (4980 more) ... needs t0"));
}

TEST(Manifest, ExpandsAMatrixInTheOrderOfTheFile) {
  const Manifest manifest = parse(R"(
[task.test]
run = "nvm exec {{matrix.node}} npm test --os={{ matrix.arch }} {{task}}"
matrix = { node = [18, 20], arch = ["x64", "arm64"] }
[task.publish]
run = "p"
needs = ["test", "test[20,x64]"]
[task.one]
run = "p"
needs = ["test[18,arm64]"]
)");
  const Names tests{"test[18,x64]", "test[18,arm64]", "test[20,x64]", "test[20,arm64]"};
  Names all = tests;
  all.insert(all.end(), {"publish", "one"});
  EXPECT_EQ(names_of(manifest), all);
  EXPECT_EQ(manifest.tasks[1].run.words[0], "nvm exec 18 npm test --os=arm64 test[18,arm64]");
  EXPECT_EQ(manifest.tasks[1].group, "test");
  EXPECT_EQ(manifest.tasks[4].needs, tests) << "each once";
  EXPECT_EQ(manifest.tasks[5].needs, Names{"test[18,arm64]"});
}

TEST(Manifest, RefusesAMatrixThatMakesNoNames) {
  const auto with = [](const std::string& matrix) {
    return refusal("[task.a]\nrun='x'\nmatrix=" + matrix + "\n");
  };
  EXPECT_TRUE(kit::contains(with("{ a = [] }"), "`matrix` must be a table of arrays"));
  EXPECT_TRUE(kit::contains(with("{ a = [1, 1] }"), "occurs twice"));
  EXPECT_TRUE(kit::contains(with("{ a = ['x y'] }"), "would be part of a task's name"));
  EXPECT_TRUE(kit::contains(with("{ a = [[1]] }"), "`matrix` must be"));
  EXPECT_TRUE(kit::contains(with("{ '1' = [1] }"), "can't be a key of `matrix`"));
  std::string many = "[0";
  for (int i = 1; i < 40; ++i) many += "," + std::to_string(i);
  many += "]";
  EXPECT_TRUE(
      kit::contains(with("{ a = " + many + ", b = " + many + " }"), "more than 1000 combinations"));
}

TEST(Manifest, ReplacesVariables) {
  ManifestOptions options;
  options.environment = [](std::string_view name) {
    return name == "HOME" ? std::optional<std::string>{"/root"} : std::nullopt;
  };
  const std::string text = R"(
[vars]
version = "1.2.3"
open = "{{"
[task.a]
run = """{{version}} {{ version }} {{env.HOME}} {{env.NO|none here}} \
{{.Names}} {{json .}} ${HOME} {{open}}x}}"""
env = { V = "{{version}}" }
)";
  EXPECT_EQ(parse(text, options).tasks[0].run.words[0],
            "1.2.3 1.2.3 /root none here {{.Names}} {{json .}} ${HOME} {{x}}");
  options.vars = {{"version", "{{env.HOME}}"}};
  EXPECT_EQ(parse(text, options).tasks[0].env.at("V"), "{{env.HOME}}") << "not replaced again";
  options.vars = {{"versoin", "2"}};
  EXPECT_EQ(refusal(text, options),
            "release.toml:2:2: the manifest has no variable 'versoin' (did you mean 'version'?): "
            "define it in [vars]");
  EXPECT_EQ(refusal("[vars]\na=1\n[task.a]\nrun='{{b}}'\n"),
            "release.toml:4:5: no variable 'b' (did you mean 'a'?): define it in [vars]");
  EXPECT_TRUE(kit::contains(refusal("[task.a]\nrun='{{env.X}}'\n"), "{{env.X|a default}}"));
  EXPECT_TRUE(kit::contains(refusal("[task.a]\nrun='{{matrix.x}}'\n"), "has no key 'x'"));
}

TEST(Manifest, SkipsATaskWhoseConditionIsFalse) {
  const auto skip = [](const std::string& when) {
    return parse("[vars]\nchannel='stable'\nempty=''\nodd='a==b'\n[task.a]\nrun='x'\nwhen=\"" +
                 when + "\"\n")
        .tasks[0]
        .skip;
  };
  EXPECT_FALSE(skip("{{channel}} == stable"));
  EXPECT_TRUE(skip("{{channel}} != stable"));
  EXPECT_TRUE(skip("{{channel}}==next"));
  EXPECT_FALSE(skip("{{channel}}"));
  EXPECT_TRUE(skip("{{empty}}"));
  EXPECT_TRUE(skip("false"));
  EXPECT_FALSE(skip("{{odd}}"));
}

TEST(Manifest, ReadsEdits) {
  const Manifest manifest = parse(R"(
[task.a]
run = "x"
edits = [
  { file = "a.toml", set = { a.b = 1, c = { d = [true, 1.5, "x"] }, "e.'f.g'" = "h" } },
  { file = "README", replace = [{ from = "a", to = "" }] },
  { file = "x.conf", format = "json", set = { "@scope/x" = "y" } },
]
)");
  const std::vector<Edit>& edits = manifest.tasks[0].edits;
  ASSERT_EQ(edits.size(), 3U);
  EXPECT_EQ(edits[0].format, Edit::Format::toml);
  EXPECT_EQ(edits[0].set,
            (std::vector<Edit::Set>{{.key = {"a", "b"}, .value = "1"},
                                    {.key = {"c"}, .value = R"({"d":[true,1.5,"x"]})"},
                                    {.key = {"e", "f.g"}, .value = R"("h")"}}));
  EXPECT_EQ(edits[1].replace, (std::vector<Edit::Replace>{{.from = "a", .to = ""}}));
  EXPECT_EQ(edits[2].set, (std::vector<Edit::Set>{{.key = {"@scope/x"}, .value = R"("y")"}}));
}

TEST(Manifest, RefusesEditsThatMakeNoSense) {
  const auto with = [](const std::string& edit) {
    return refusal("[task.a]\nrun='x'\nedits=[" + edit + "]\n");
  };
  EXPECT_TRUE(kit::contains(with("{ file='a' }"), "changes nothing"));
  EXPECT_TRUE(kit::contains(with("{ set={a=1} }"), "an edit needs `file`"));
  EXPECT_TRUE(kit::contains(with("{ file='a', set={a=1} }"), "say format ="));
  EXPECT_TRUE(kit::contains(with("{ file='a.json', set={a=1, 'a.b'=2} }"), "a key inside of it"));
  EXPECT_TRUE(kit::contains(with("{ file='a.json', set={'a..b'=2} }"), "has an empty part"));
  EXPECT_TRUE(kit::contains(with("{ file='a.json', set={a=1979-05-27} }"), "can't write a date"));
  EXPECT_TRUE(kit::contains(with("{ file='a.json', set={a=inf} }"), "can't write inf"));
  EXPECT_TRUE(kit::contains(with("{ file='a', replace=[{from='', to='x'}] }"), "`from` is empty"));
  EXPECT_TRUE(kit::contains(with("{ file='a', replace=[{from='y'}] }"), "needs `to`"));
}

TEST(Manifest, RefusesChecksThatMakeNoSense) {
  const auto with = [](const std::string& check) {
    return refusal("[task.a]\nrun='x'\ndone=" + check + "\n");
  };
  EXPECT_TRUE(kit::contains(with("{}"), "either `http` or `run`"));
  EXPECT_TRUE(kit::contains(with("{ http='http://a', run='x' }"), "either `http` or `run`"));
  EXPECT_TRUE(kit::contains(with("{ http='ftp://a' }"), "begin with http://"));
  EXPECT_TRUE(kit::contains(with("{ run='x', status=200 }"), "`status` belongs to `http`"));
  EXPECT_TRUE(kit::contains(with("{ http='http://a', status=99 }"), "from 100 to 599"));
  EXPECT_TRUE(kit::contains(with("{ run='x', every='1s' }"), "unknown key 'every' in a check"));
}

TEST(Manifest, RefusesLocksThatAreNoClaims) {
  const auto with = [](const std::string& locks) {
    return refusal("[task.a]\nrun='x'\nlocks=" + locks + "\n");
  };
  EXPECT_TRUE(kit::contains(with("['a:']"), "release.toml:3:8: `locks`: '' after the last ':'"));
  EXPECT_TRUE(kit::contains(with("['a', 'a:shared']"), "has the path 'a' twice"));
}

TEST(Manifest, TextOfATaskChangesWithWhatItDoes) {
  const auto text = [](const std::string& more) {
    return task_text(parse("[task.b]\nrun='y'\n[task.a]\nrun='x'\n" + more).tasks[1]);
  };
  EXPECT_EQ(text(""), text("\n# A comment.\n"));
  for (const std::string more :
       {"needs=['b']", "timeout='1s'", "grace='1s'", "retry={max=1}", "locks=['a']",
        "edits=[{file='a',replace=[{from='a',to='b'}]}]", "done={run='x'}", "verify={run='x'}",
        "when={run='x'}", "when='no'", "env={A=1}", "dir='x'", "tags=['x']", "once=true"}) {
    EXPECT_NE(text(""), text(more)) << more;
  }
}

}  // namespace
}  // namespace tenure::pipeline
