// One of several processes leads; a polite request makes it stop, and the next one leads.
#include <atomic>
#include <iostream>
#include <stop_token>
#include <string>
#include <thread>

#include "examples/watch.hpp"
#include "tenure/tenure.hpp"

int main() {
  // Stands for a URL that several machines share, such as etcd://a,b,c/prod.
  const std::string url = "local:fleet";
  std::atomic<int> leads = 0;
  const auto candidate = [&](int number) {
    const tenure::Space space = tenure::open(url);
    const std::string name = "node-" + std::to_string(number);
    const bool to_the_end =
        space.as(name).lead("scheduler", [&](std::stop_token stop, const tenure::Hold& hold) {
          leads = number;
          const std::string known = hold.claims().front().text();
          while (!stop.stop_requested()) std::this_thread::yield();  // Its work.
          std::cout << name << " leads '" << known << "', and is told to stop\n";
        });
    if (!to_the_end) std::cout << name << " leads no longer\n";
  };
  const auto until_led_by = [&](int number) {
    while (leads != number) std::this_thread::yield();
  };

  const tenure::Space operator_space = tenure::open(url);
  std::jthread first{candidate, 1};
  until_led_by(1);
  std::jthread second{candidate, 2};
  example::until_waiting(operator_space, 1);
  example::print("Two candidates:", operator_space);

  // The holder may finish what it does; evict() would take the lock away.
  operator_space.ask_to_leave(operator_space.inspect("scheduler").front().ticket.number);
  first.join();
  until_led_by(2);
  example::print("After a polite request:", operator_space);
  std::cout << "The operator takes the rest away:" << std::endl;
  operator_space.evict_below("scheduler");
}
