// sweeper.hpp: removes what dead sessions left in the store: their tickets and their entries.
//
// All of it when a space is opened, and later what a waiter came across. No process depends on it:
// a process that a dead ticket blocks removes that ticket itself.
//
// Mutex: it guards the two flags. No call of the store is made with it locked.
//
// Thread safety: all calls.
#pragma once

#include <span>

#include "base/annotations.hpp"
#include "base/mutex.hpp"
#include "space/stored/tickets.hpp"
#include "tenure/store.hpp"

namespace tenure::stored {

class Sweeper {
 public:
  Sweeper(Store& store, Hints& hints) noexcept : store_(store), tickets_(store, hints) {}

  // A session is dead: the next sweep() has something to do.
  void note_dead();
  void sweep() noexcept;

 private:
  void remove_left_behind(std::span<const Entry> sessions);

  Store& store_;
  const Tickets tickets_;
  base::Mutex mutex_;
  bool due_ TENURE_GUARDED_BY(mutex_) = true;
};

}  // namespace tenure::stored
