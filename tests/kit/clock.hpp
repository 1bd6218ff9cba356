// clock.hpp: clocks that a case can move. The program has a clock_gettime() of its own, which all
// of it uses, the library included; what the kernel says is moved by these.
//
// The wall clock is moved for one process, as if it was set wrong there. The boot clock, which goes
// on while the machine sleeps, is moved for all processes alike, as it does when it wakes.
#pragma once

#include <chrono>

namespace tenure::kit {

void move_wall_clock(std::chrono::nanoseconds by);  // Of this process, and those it forks later.
// Of this process and all that it forked after share_boot_clock().
void move_boot_clock(std::chrono::nanoseconds by);
void share_boot_clock();

}  // namespace tenure::kit
