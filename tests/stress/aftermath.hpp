// aftermath.hpp: what a run left in the database, after all of its processes have ended.
#pragma once

#include <string>
#include <vector>

namespace tenure::stress {

// The problems found, one line each. First as the run left it: every ticket must belong to a
// recorded session, so that the next process can remove it. Then the space is opened once, and only
// that session may be left of Tenure. Last, SQLite's own check.
[[nodiscard]] std::vector<std::string> look_at_remains(const std::string& database);

// Who holds and waits now, for the report of a run that got stuck.
[[nodiscard]] std::string describe(const std::string& database);

}  // namespace tenure::stress
