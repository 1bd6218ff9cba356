// tenure.hpp: all of Tenure but Asio, which has tenure/asio.hpp. Start here:
//
//   #include <tenure/tenure.hpp>
//   inline const tenure::Name book{"book"};
//   tenure::Space space = tenure::open("local:");
//   space.with(book(3), [](const tenure::Hold& hold) { save(hold.token()); });
#pragma once

#include "tenure/await.hpp"        // IWYU pragma: export
#include "tenure/claim.hpp"        // IWYU pragma: export
#include "tenure/error.hpp"        // IWYU pragma: export
#include "tenure/fence.hpp"        // IWYU pragma: export
#include "tenure/file_lock.hpp"    // IWYU pragma: export
#include "tenure/hold.hpp"         // IWYU pragma: export
#include "tenure/locker.hpp"       // IWYU pragma: export
#include "tenure/mutex.hpp"        // IWYU pragma: export
#include "tenure/name.hpp"         // IWYU pragma: export
#include "tenure/path.hpp"         // IWYU pragma: export
#include "tenure/rule.hpp"         // IWYU pragma: export
#include "tenure/shards.hpp"       // IWYU pragma: export
#include "tenure/space.hpp"        // IWYU pragma: export
#include "tenure/ticket.hpp"       // IWYU pragma: export
#include "tenure/ticket_info.hpp"  // IWYU pragma: export
#include "tenure/uuid.hpp"         // IWYU pragma: export
