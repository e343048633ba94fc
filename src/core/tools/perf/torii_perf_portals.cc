// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// A channel of Portals puts and gets: a persistent entry for each lane, or with unexpected puts
// (which flow control holds) an entry for every message.
#include <algorithm>

#include "core/api/ni_registry.h"
#include "core/portals3.h"
#include "core/tools/perf/torii_perf_channel.h"

namespace torii::perf {

namespace {

constexpr ptl_pt_index_t kPortal = 4;
constexpr int kSpareObjects = 64;

void check(const char* what, int code) {
  if (code != PTL_OK) die("%s: %s", what, PtlErrorStr(unsigned(code)));
}

class PortalsChannel final : public Channel {
 public:
  PortalsChannel(Job& job, const ChannelOptions& options) : Channel(job, options) {
    job.ni().enable_threads();  // as PtlNIInit does
    int interfaces = 0;
    check("PtlInit", PtlInit(&interfaces));
    const int objects = int(options.posted + 2 * options.window) + kSpareObjects;
    ptl_ni_limits_t limits{};
    limits.max_mes = limits.max_mds = limits.max_me_list = objects;
    ni_ = register_ni(job.ni().portals(), &limits);
    if (ni_ == PTL_INVALID_HANDLE) die("no Portals interface can be made");
    check("PtlEQAlloc",
          PtlEQAlloc(ni_, 8 * options.window + options.strangers + kSpareObjects, nullptr, &eq_));
    check("PtlGetRankId", PtlGetRankId(ni_, job.partner(), &partner_));
    if (options.unexpected) check("PtlPTFlowControl", PtlPTFlowControl(ni_, kPortal, 1));
    for (uint32_t i = 0; i < options.posted; ++i)
      attach(stranger_tag(i), options.kind, 0, PTL_RETAIN);
    if (!options.unexpected) attach(lane_tag(Lane::data), options.kind, options.bytes, PTL_RETAIN);
    attach(lane_tag(Lane::answer), Kind::exact, 0, PTL_RETAIN);
    ptl_md_t md = descriptor(source_.get(), options.bytes);
    check("PtlMDBind", PtlMDBind(ni_, md, PTL_RETAIN, &source_md_));
    md = descriptor(target_.get(), options.bytes);
    check("PtlMDBind", PtlMDBind(ni_, md, PTL_RETAIN, &target_md_));
  }

  ~PortalsChannel() override {
    unregister_ni(ni_);
    PtlFini();
  }

  void expect(Lane lane, unsigned count, uint64_t bytes) override {
    if (!options_.unexpected || lane != Lane::data) return;
    for (unsigned i = 0; i < count; ++i) attach(lane_tag(lane), options_.kind, bytes, PTL_UNLINK);
  }

  void send(Lane lane, unsigned count, uint64_t bytes) override {
    for (unsigned i = 0; i < count; ++i) put(lane_tag(lane), bytes);
    sends_begun_ += count;
  }

  void finish_sends() override {
    while (sends_done_ != sends_begun_) step();
    job_.busy();
  }

  void await(Lane lane, unsigned count) override {
    uint64_t& taken = taken_[unsigned(lane)];
    taken += count;
    while (received_[unsigned(lane)] < taken) step();
    job_.busy();
  }

  void send_strangers(uint32_t count) override {
    for (uint32_t i = 0; i < count; ++i) {
      put(stranger_tag(i), 0);
      while (take_event()) {
      }
    }
  }

  void get(unsigned count, uint64_t bytes) override {
    const uint64_t until = replies_ + count;
    for (unsigned i = 0; i < count; ++i)
      check("PtlGetRegion",
            PtlGetRegion(target_md_, 0, bytes, partner_, kPortal, 0, lane_tag(Lane::data), 0));
    while (replies_ < until) step();
    job_.busy();
  }

 private:
  ptl_md_t descriptor(void* start, uint64_t bytes) const {
    ptl_md_t md{};
    md.start = start;
    md.length = bytes;
    md.threshold = PTL_MD_THRESH_INF;
    md.options = PTL_MD_EVENT_START_DISABLE;
    md.eq_handle = eq_;
    return md;
  }

  void attach(uint64_t bits, Kind kind, uint64_t bytes, ptl_unlink_t unlink) {
    const ptl_process_id_t anyone{PTL_NID_ANY, PTL_PID_ANY};
    const ptl_process_id_t from = kind == Kind::any_source ? anyone : partner_;
    const uint64_t ignore = kind == Kind::any_tag ? kLowHalf : 0;
    ptl_handle_me_t me;
    check("PtlMEAttach", PtlMEAttach(ni_, kPortal, from, bits, ignore, unlink, PTL_INS_AFTER, &me));
    ptl_md_t md = descriptor(target_.get(), bytes);
    md.options |= PTL_MD_OP_PUT | PTL_MD_OP_GET | PTL_MD_MANAGE_REMOTE;
    if (unlink == PTL_UNLINK) md.threshold = 1;
    check("PtlMDAttach", PtlMDAttach(me, md, unlink, nullptr));
  }

  void put(uint64_t bits, uint64_t bytes) {
    check("PtlPutRegion",
          PtlPutRegion(source_md_, 0, bytes, PTL_NO_ACK_REQ, partner_, kPortal, 0, bits, 0, 0));
  }

  void step() {
    if (!take_event()) job_.idle();
  }

  bool take_event() {
    ptl_event_t event;
    const int code = PtlEQGet(eq_, &event);
    if (code == PTL_EQ_EMPTY) return false;
    check("PtlEQGet", code);
    if (event.type == PTL_EVENT_UNLINK) return true;
    if (event.ni_fail_type != PTL_NI_OK)
      die("%s failed: %s", PtlEventKindStr(event.type), PtlNIFailStr(ni_, event.ni_fail_type));
    if (event.match_bits > lane_tag(Lane::answer)) return true;
    if (event.type == PTL_EVENT_SEND_END) ++sends_done_;
    if (event.type == PTL_EVENT_REPLY_END) ++replies_;
    if (event.type == PTL_EVENT_PUT_END) ++received_[event.match_bits == lane_tag(Lane::answer)];
    return true;
  }

  ptl_handle_ni_t ni_ = PTL_INVALID_HANDLE;
  ptl_handle_eq_t eq_ = PTL_EQ_NONE;
  ptl_handle_md_t source_md_ = PTL_INVALID_HANDLE;
  ptl_handle_md_t target_md_ = PTL_INVALID_HANDLE;
  ptl_process_id_t partner_{};
  uint64_t sends_begun_ = 0;
  uint64_t sends_done_ = 0;
  uint64_t replies_ = 0;
  uint64_t received_[kLanes] = {};
  uint64_t taken_[kLanes] = {};
};

}  // namespace

std::unique_ptr<Channel> open_portals_channel(Job& job, const ChannelOptions& options) {
  return std::make_unique<PortalsChannel>(job, options);
}

}  // namespace torii::perf
