import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { gameDuration, sprtBatchSize, timeControlRatio } from '../src/statistics/time-control.ts';
import { hashSize, internalThroughput, memoryNeed, taskSize } from '../src/world/request-task.ts';
import { colours } from '../src/world/run.ts';
import { crashOrTime, zeroStats } from '../src/world/world.ts';
import { close, closeAll, golden, plain, unreadPaths } from './fixtures/golden.ts';

describe('scheduling like the reference', () => {
  it('knows what a game costs', () => {
    for (const { tc, game_duration, tc_ratio, sprt_batch_size_pairs } of golden.time_control) {
      close(gameDuration(tc), game_duration, tc);
      for (const threads of [1, 2, 8]) {
        close(timeControlRatio(tc, threads), tc_ratio[threads], tc);
        assert.equal(sprtBatchSize(tc, threads), sprt_batch_size_pairs[threads]);
      }
    }
  });

  it('sizes tasks', () => {
    for (const { tc, threads, concurrency, sprt_batch_size, task_games } of golden.task_size) {
      const sprt = sprt_batch_size ? { batch_size: sprt_batch_size } : undefined;
      assert.equal(taskSize({ tc, threads, sprt }, concurrency), task_games);
    }
  });

  it('shares cores out', () => {
    for (const one of golden.itp) {
      const { throughput, tc, threads, active_runs_of_user, games, llr, elo0, itp } = one;
      const sprt = { llr, elo0 };
      const at = { games, activeRuns: active_runs_of_user };
      close(internalThroughput({ throughput, tc, threads, sprt }, at), itp, one);
    }
  });

  it('counts the memory that games need', () => {
    for (const { new_options, base_options, concurrency, threads, out } of golden.memory_need_mib) {
      const hashMiB = hashSize(new_options) + hashSize(base_options);
      assert.equal(memoryNeed({ hashMiB, threads }, concurrency), out);
    }
  });

  it('tells tasks with crashes and time losses', () => {
    for (const { games, crashes, time_losses, out } of golden.crash_or_time) {
      assert.equal(crashOrTime({ ...zeroStats(), draws: games, crashes, time_losses }), out);
    }
  });

  it('paints finished runs in the same colours', () => {
    for (const { args, results, finished, out } of golden.flags) {
      closeAll(colours({ finished, results: plain(results), args: plain(args) }), out);
    }
  });

  it('leaves no number of its part of the file unread', () => {
    assert.deepEqual(unreadPaths('scheduling'), []);
  });
});
