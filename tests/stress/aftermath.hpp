// aftermath.hpp: what a run left in the database, when all of its processes are gone.
#pragma once

#include <string>
#include <vector>

namespace tenure::stress {

// What is wrong, one line each. First as it was left: tickets may be there only of sessions that
// are recorded, for whoever comes next to sweep. Then the space is opened once, and nothing of
// Tenure's may be there but that session. Last, SQLite's own check.
[[nodiscard]] std::vector<std::string> look_at_remains(const std::string& database);

// Who holds and who waits now, for the report of a run that got stuck.
[[nodiscard]] std::string describe(const std::string& database);

}  // namespace tenure::stress
