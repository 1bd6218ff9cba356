// Which store a URL names.
#include <string>

#include "tenure/store.hpp"

namespace tenure {

std::shared_ptr<Store> store(std::string_view url) {
  throw Error("'" + std::string{url} + "' names no store");
}

}  // namespace tenure
