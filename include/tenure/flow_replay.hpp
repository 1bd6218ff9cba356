// flow_replay.hpp: a program that replays stored histories against its definitions, for your CI.
//
//   int main(int argc, char** argv) {
//     tenure::Engine engine{tenure::store("memory:")};
//     define_all(engine);                              // As in production.
//     return tenure::replay_main(engine, argc, argv);
//   }
//
//   $ tenure flow export order-7 > histories/order-7.json
//   $ ./replay histories/*.json
//   histories/order-7.json: fits
//   $ tenure flow replay --program ./replay          # All histories of a store.
//
// No step runs and nothing is written.
#pragma once

#include <iosfwd>
#include <span>
#include <string>

#include "tenure/flow.hpp"

namespace tenure {

// Replays each file, "-" is the standard input, and prints one line for each: "FILE: fits", or what
// is different. Returns 0 where all fit, 1 where one does not, 2 where one cannot be read or none
// is named.
int replay_main(const Engine& engine, int argc, const char* const* argv);
int replay_files(const Engine& engine, std::span<const std::string> files, std::ostream& out);

}  // namespace tenure
