#include "tenure/space.hpp"

#include <memory>
#include <string>
#include <utility>

#include "space/local/local_space.hpp"
#include "tenure/error.hpp"

namespace tenure {

Space::~Space() {
  if (backend_ != nullptr) backend_->close();
}

Space& Space::operator=(Space&& other) noexcept {
  if (this != &other) {
    if (backend_ != nullptr) backend_->close();
    Locker::operator=(std::move(other));
  }
  return *this;
}

Space open(std::string_view url) {
  if (url != "local:") {
    throw Error("'" + std::string{url} +
                "' names no space: use local: (this process); it takes nothing behind the colon");
  }
  constexpr auto abandon = [](detail::Backend* backend) { backend->abandon(); };
  return Space{std::shared_ptr<detail::Backend>{new local::LocalSpace, abandon}};
}

}  // namespace tenure
