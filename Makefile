# The front door. Each target is a line or two over a CMake preset (CMakePresets.json); what a tree
# is, is explained in cmake/README.md.

PREFIX ?= /usr/local
LIBRARY ?= static
FUZZ_SECONDS ?= 60
TORTURE_RUNS ?= 10
TORTURE_SECONDS ?= 30
TORTURE_FAULTS ?= 100
BENCH ?=
MUTATION ?=
# ON: compile the dev tree in pieces, as cmake/Tree.cmake explains: faster from nothing, slower
# after a change of one file.
PIECES ?= OFF

.DEFAULT_GOAL := help
.PHONY: help bootstrap run build check test gcc asan tsan fuzz torture bench mutate coverage
.PHONY: format tidy install clean

# $(call configure,TREE[,OPTIONS]). Configuring again takes half a second and picks up new files;
# only its errors are shown.
configure = cmake --preset $(1) $(2) >/dev/null
pieces = $(if $(filter dev,$(1)),-DTENURE_PIECES=$(PIECES))
# $(call tree,TREE[,TARGETS]): configure a tree with everything in it and build it, or some targets.
# One job per core: clang takes up to a gigabyte for a test.
tree = $(call configure,$(1),-DTENURE_TESTS=ON $(call pieces,$(1))) && \
	cmake --build --preset $(1) -j "$$(nproc)" $(if $(2),--target $(2))

help: ## Show this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/\1|\2/p' Makefile | \
	    while IFS='|' read -r name text; do printf 'make %-10s %s\n' "$$name" "$$text"; done

bootstrap: ## Install what is missing (Debian 12); does nothing when all is there
	@tools/bootstrap.sh all

run: ## Build the program, build/bin/tenure, and show the demonstration
	@tools/bootstrap.sh program
	@$(call configure,dev,$(if $(wildcard build/dev/CMakeCache.txt),,-DTENURE_PIECES=ON)) && \
	    cmake --build --preset dev -j "$$(nproc)" --target tenure
	build/bin/tenure demo

build: bootstrap ## Build the dev tree: program, etcd module, tests, benchmarks, examples
	@$(call tree,dev)

check: bootstrap ## Run the quick tests of the dev tree, and say what was left out
	@$(call tree,dev,tenure_check_programs)
	@ctest --preset check
	@echo "make check left out: servers, fault campaigns, sanitizers, fuzzers, benchmarks,"
	@echo "clang-tidy, headers compiled alone, g++. make test and make gcc run them."

test: build ## Run every test and check, with the sanitizers and a few seconds of fuzzing
	@$(call tree,tsan,tenure_sibling_programs)
	@$(call tree,asan,tenure_sibling_programs)
	@ctest --preset dev

gcc: bootstrap ## Build with g++ 12 and run the tests, but for the fault campaigns
	@$(call tree,gcc)
	@ctest --preset gcc

asan: bootstrap ## Run all tests under the address and undefined sanitizers
	@$(call tree,asan)
	@ctest --preset asan

tsan: bootstrap ## Run the tests with threads under the thread sanitizer
	@$(call tree,tsan)
	@ctest --preset tsan

fuzz: bootstrap ## Run each fuzzer for FUZZ_SECONDS (60)
	@$(call tree,asan,tenure_sibling_programs)
	@tools/fuzz.sh --all "$(FUZZ_SECONDS)"

# No limit on the time of a test: the campaigns take as long as they are told to.
torture: export TENURE_TEST_LIMIT = 0
torture: build ## Kill processes and servers at random, and judge; TORTURE_RUNS (10) of 30 s each
	@build/dev/tests/stress/stress --runs "$(TORTURE_RUNS)" --seconds "$(TORTURE_SECONDS)"
	@build/dev/tests/faults_network_test --gtest_brief=1
	@TENURE_FAULTS_RUNS="$(TORTURE_RUNS)" TENURE_FAULTS_SECONDS="$(TORTURE_SECONDS)" \
	    build/dev/tests/faults_campaign_test --gtest_brief=1
	@TENURE_FAULTS_STRIKES="$$((2 * $(TORTURE_RUNS)))" \
	    build/dev/tests/faults_lock_set_test --gtest_brief=1
	@TENURE_FLOW_SEEDS="$$((500 * $(TORTURE_RUNS)))" TENURE_FLOW_FULL=1 \
	    build/dev/tests/unit_test --gtest_brief=1 \
	    --gtest_filter='FlowCrash*:FlowFeaturesCrash*:FlowReplay*:FlowRecovery.W*'
	@TENURE_GIT_KILLS="$$((50 * $(TORTURE_RUNS)))" \
	    build/dev/tests/git_test --gtest_filter='GitCrowd.*' --gtest_brief=1
	@TENURE_KILLS=50 apps/tenure/pipeline_test.py pipeline_kills_leave_nothing build/bin/tenure
	@TENURE_REGISTRY_KILLS="$(TORTURE_RUNS)" \
	    apps/tenure/registry_test.py registry_survives_kills build/bin/tenure
	@build/dev/tests/cluster_faults_test --gtest_brief=1
	@TENURE_FAULTS="$(TORTURE_FAULTS)" build/dev/tests/cluster_campaign_test --gtest_brief=1

bench: bootstrap ## Measure; BENCH=name asks one question only
	@$(call tree,release)
	@tools/bench.sh "$(BENCH)"

mutate: bootstrap ## Plant bugs one at a time and see the tests fail; MUTATION=name plants one
	@tools/mutate.py $(MUTATION)

coverage: bootstrap ## Test coverage by file; pages in build/coverage/html
	@$(call tree,coverage)
	@tools/coverage.sh

format: bootstrap ## Format all C++ files in place
	@tools/check_format.sh --fix

tidy: bootstrap ## Run clang-tidy with its static analyser (make test has it without)
	@$(call configure,dev,-DTENURE_TESTS=ON)
	@$(call configure,tsan,-DTENURE_TESTS=ON)
	@tools/tidy.sh --deep

install: ## Install under PREFIX (/usr/local): program, module, LIBRARY (static or shared)
	@tools/bootstrap.sh module
	@$(call configure,release,-DTENURE_ETCD=ON)
	@cmake --build --preset release -j "$$(nproc)" --target tenure_installed
	@cmake --install build/release --prefix "$(PREFIX)" --component tenure
	@cmake --install build/release --prefix "$(PREFIX)" --component "$(LIBRARY)"

clean: ## Remove everything built
	rm -rf build
