// The component `sqlite`: what open.cpp uses of this store.
#include "store/driver.hpp"

#include <string_view>
#include <tuple>

#include "store/sqlite/sqlite_store.hpp"

namespace tenure::sqlite {
namespace {

constexpr std::string_view scheme = "sqlite:";

std::shared_ptr<Store> open_url(std::string_view url) {
  return open_sqlite(url.substr(scheme.size()));
}

void renew_epoch(std::string_view url) {
  SqliteOptions options;
  options.new_epoch = true;
  std::ignore = open_sqlite(url.substr(scheme.size()), options);
}

}  // namespace
}  // namespace tenure::sqlite

constexpr tenure::stores::Driver tenure_driver_sqlite{
    .open = tenure::sqlite::open_url, .shown = nullptr, .repair = tenure::sqlite::renew_epoch};
