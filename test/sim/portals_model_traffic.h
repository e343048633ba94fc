// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Random calls of random processes, each made twice: to the library and to the model.
#pragma once

#include <string>
#include <vector>

#include "sim/portals_model_world.h"

namespace torii::model {

struct Totals {
  uint64_t accepted = 0, held = 0, events = 0, known_bytes = 0, compared_bytes = 0, calls = 0;
};

// Runs one seed. Returns the first difference with its circumstances, or empty.
std::string run_seed(uint64_t seed, Mutation mutation, bool verbose, Totals* totals);

class Traffic {
 public:
  Traffic(World& world, Random& random, bool verbose);
  // Makes long lists of entries, or of held puts, at one process; the library then uses indexes.
  void fill(unsigned p);
  // One call of a random process, or some time.
  void step();
  uint64_t calls = 0;
  void slow_down(uint64_t ns) { longest_ns_ = ns; }

 private:
  void attach(unsigned p);
  void insert(unsigned p);
  void unlink_me(unsigned p);
  void attach_md(unsigned p);
  void bind(unsigned p);
  void unlink_md(unsigned p);
  void update(unsigned p);
  void post(unsigned p);
  void flow_control(unsigned p);
  void access(unsigned p);
  void put(unsigned p);
  void get(unsigned p);
  void getput(unsigned p);
  void scribble(unsigned p);
  void say(const char* format, ...) __attribute__((format(printf, 2, 3)));

  // Random things.
  uint64_t below(uint64_t n) { return random_.next() % n; }
  bool one_in(uint64_t n) { return below(n) == 0; }
  unsigned someone();  // alive
  Criterion criterion();
  uint64_t request_bits(bool serial_in_bits, uint32_t serial);
  uint64_t length();
  ptl_md_t md(unsigned p, bool target);
  void spoil(ptl_md_t* md);
  ptl_handle_me_t some_me(unsigned p);
  std::shared_ptr<Md> some_md(unsigned p, bool bound);
  std::shared_ptr<Md> some_source(unsigned p, uint64_t most);
  std::shared_ptr<Request> request(unsigned p, Verb verb);
  ptl_process_id_t target_of(const Request& r);
  bool reachable(const Request& r);
  Model::Region region(const Md& md);
  void check(int rc, int expected, const char* what);

  World& world_;
  Model& model_;
  Random& random_;
  bool verbose_;
  uint64_t longest_ns_ = 4000;
  uint32_t serial_ = 1;
  bool patient_;        // processes seldom make progress
  unsigned portals_;    // as many are used
  unsigned favourite_;  // most requests go there; or nowhere special
  std::vector<ptl_md_iovec_t> pieces_;
};

}  // namespace torii::model
