// The component `postgres`: what open.cpp uses of this store.
#include "store/driver.hpp"

#include <string>
#include <string_view>

#include "store/postgres/postgres_store.hpp"
#include "store/postgres/url.hpp"

namespace tenure::postgres {
namespace {

std::shared_ptr<Store> open_url(std::string_view url) { return open_postgres(url); }

std::string shown_part(std::string_view url) { return parse_url(url).shown; }

}  // namespace
}  // namespace tenure::postgres

constexpr tenure::stores::Driver tenure_driver_postgres{
    .open = tenure::postgres::open_url, .shown = tenure::postgres::shown_part, .repair = nullptr};
