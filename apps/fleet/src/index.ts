export { type Claim, type ClaimOptions, claim, primaryLockPath } from './claim.ts';
export { fleetProgram } from './commands/program.ts';
export { type Contribution, Contributions } from './contributors/contribution.ts';
export type { Contributor, ContributorTable } from './contributors/contributor-tables.ts';
export { Contributors, type ContributorsOptions } from './contributors/contributors.ts';
export { type FleetErrorCode, fleetError } from './errors.ts';
export { type FieldFault, InputError } from './field-reader.ts';
export { type BookEntry, readBookList } from './files/book-entry.ts';
export { BookShelf } from './files/book-shelf.ts';
export { type Book, readBook } from './files/book-text.ts';
export { type FileRoutesOptions, fileRoutes } from './files/file-routes.ts';
export { FleetFiles, type FleetFilesOptions } from './files/fleet-files.ts';
export { type Net, NetShelf, type NetShelfOptions } from './files/net-shelf.ts';
export {
  PgnShelf,
  type PgnShelfOptions,
  type RunPgns,
  type StoredPgn,
} from './files/pgn-shelf.ts';
export { type ReceivePgnOptions, receivePgn } from './files/receive-pgn.ts';
export { UploadBody } from './files/upload-body.ts';
export { Jobs, type JobsOptions } from './jobs.ts';
export { type FleetService, type OpenFleetOptions, openFleet } from './open-fleet.ts';
export type { Desk, Operation } from './operations/desk.ts';
export { operate, operations } from './operations/operations.ts';
export { type CommitText, commitText, netNames } from './outside/commit-text.ts';
export {
  type Branch,
  type Commit,
  Github,
  type GithubOptions,
  type GithubStats,
  type Repository,
} from './outside/github.ts';
export { GithubBudget, type GithubBudgetState } from './outside/github-budget.ts';
export {
  type OutsideAnswer,
  type OutsideCall,
  OutsideHost,
  type OutsideHostOptions,
  type ReadAnswer,
} from './outside/outside-host.ts';
export { outsideDispatcher, type ProxyVariables } from './outside/proxy.ts';
export { type PageLink, type PaginationOptions, pagination } from './pagination.ts';
export { Primary, type PrimaryOptions, type PrimaryStats } from './primary.ts';
export { architectures } from './protocol/architectures.ts';
export { patterns } from './protocol/patterns.ts';
export {
  type Access,
  type Endpoint,
  RequestReader,
  type Requirements,
  readAccess,
  requireFor,
  requirements,
  type SpsaResults,
  type WorkerRequest,
} from './protocol/read-request.ts';
export { accessSchema, requestSchema, spsaSchema, statsSchema } from './protocol/request-schema.ts';
export type { Rule } from './protocol/schema.ts';
export {
  longName,
  type StoredWorkerInfo,
  shortName,
  type WorkerInfo,
} from './protocol/worker-info.ts';
export { dateText } from './read/date-text.ts';
export type { FinishedQuery } from './read/finished-query.ts';
export { type ReadRoutesOptions, readRoutes } from './read/read-routes.ts';
export type { RunSource } from './read/run-source.ts';
export { listedRun, shownElo, shownRun, shownTask } from './read/shown-run.ts';
export { StoredRuns, type StoredRunsOptions } from './read/stored-runs.ts';
export { runName } from './run-name.ts';
export {
  type Action,
  type RunActionName,
  systemUser,
  type TaskActionName,
  type WorkerActionName,
} from './scheduling/actions.ts';
export { type ArchFilter, archFilter } from './scheduling/arch-filter.ts';
export { Changes, type Decision } from './scheduling/changes.ts';
export { type Candidate, chooseRun, fits } from './scheduling/choose-run.ts';
export { type Colours, type ColoursInput, colours } from './scheduling/colours.ts';
export { Fleet, type FleetOptions, type FleetStats } from './scheduling/fleet.ts';
export {
  type InternalThroughputOptions,
  internalThroughput,
} from './scheduling/internal-throughput.ts';
export { type JobName, type JobPeriod, jobPeriods } from './scheduling/maintenance.ts';
export type { RunModification } from './scheduling/manage-run.ts';
export { hashSize, type MemoryNeedOptions, memoryNeed } from './scheduling/memory-need.ts';
export { type NewRunOptions, newRunRecord } from './scheduling/new-run.ts';
export { type PeriodicOptions, periodic } from './scheduling/periodic.ts';
export { recount, type Sums, wrongSums } from './scheduling/recount.ts';
export { wrap } from './scheduling/refusal-texts.ts';
export type { AssignedTask, NoTask, TaskRequest } from './scheduling/request-task.ts';
export type { StoredWorld } from './scheduling/restore.ts';
export { type BadTaskMark, Run, type RunStatus } from './scheduling/run.ts';
export { byProgress, byUrgency, hoursLeft } from './scheduling/run-order.ts';
export type { BadTaskRecord, RunArgs, RunRecord, TaskRecord } from './scheduling/run-record.ts';
export {
  addDifference,
  crashOrTime,
  crashOrTimeText,
  gamesOf,
  type Stats,
  zeroStats,
} from './scheduling/stats.ts';
export type { StopReply } from './scheduling/stop-by-worker.ts';
export { Task } from './scheduling/task.ts';
export { type TaskSizeOptions, taskSize } from './scheduling/task-size.ts';
export type { Alive, TaskUpdate } from './scheduling/update-task.ts';
export type { BlockedWorker, Named } from './scheduling/world.ts';
export { type FleetLanes, fleetLanes } from './server/fleet-lanes.ts';
export {
  instanceHeader,
  type OperatorApiOptions,
  operatorApi,
  operatorPath,
} from './server/operator-api.ts';
export { type UploadPgnOptions, uploadPgn } from './server/upload-pgn.ts';
export { answerWorkers, durationOf, pathOf } from './server/worker-answer.ts';
export { type WorkerApiOptions, workerApi } from './server/worker-api.ts';
export {
  type Asked,
  type WorkerRouteOptions,
  WorkerScope,
  type WorkerScopeOptions,
} from './server/worker-scope.ts';
export {
  readSettings,
  type SettingName,
  type Settings,
  settingNames,
  shownSettings,
  variableOf,
} from './settings.ts';
export {
  bayesEloLlr,
  bayesEloToElo,
  drawEloOf,
  eloToBayesElo,
  type GameChances,
} from './statistics/bayes-elo.ts';
export { type Brownian, outcomeCdf } from './statistics/brownian.ts';
export { calculateElo, type EloQuery, type PlainElo } from './statistics/calculate-elo.ts';
export { chiSquareTail } from './statistics/chi-square.ts';
export {
  type Counts,
  countsOf,
  type Distribution,
  type Moments,
  moments,
  observed,
  type Results,
} from './statistics/distribution.ts';
export { type EloEstimate, eloEstimate, eloOf, scoreOf } from './statistics/elo.ts';
export {
  type EloModel,
  type Hypotheses,
  llr,
  llrLogisticNormal,
  llrLogisticQuick,
  llrNormalizedQuick,
} from './statistics/llr.ts';
export { normalCdf, upperQuantile, upperQuantileOfLog } from './statistics/normal.ts';
export {
  type NormalizedElo,
  normalizedElo,
  normalizedEloLine,
} from './statistics/normalized-elo.ts';
export {
  type Bounds,
  type Range,
  type RawStatistics,
  rawStatistics,
  type SampleStatistics,
  type TestStatistics,
} from './statistics/raw-statistics.ts';
export {
  type BadWorkerLimits,
  crashResidual,
  type ResidualColor,
  type Residuals,
  residualColor,
  residuals,
  type WorkerPairs,
  worstWorker,
} from './statistics/residuals.ts';
export {
  fixedGamesState,
  type ResultText,
  type ResultTextInput,
  resultText,
} from './statistics/result-text.ts';
export {
  expectedOvershoot,
  newSprt,
  type Overshoot,
  type Sprt,
  type SprtOptions,
  type SprtState,
  updateSprt,
} from './statistics/sprt.ts';
export {
  type SprtCalculatorOptions,
  type SprtForecast,
  sprtForecast,
} from './statistics/sprt-calculator.ts';
export { type SprtElo, type SprtEloOptions, sprtElo } from './statistics/sprt-elo.ts';
export {
  historyPeriod,
  newSpsa,
  type Spsa,
  type SpsaOptions,
  type SpsaOutcome,
  type SpsaParam,
  type SpsaSample,
  type SpsaStep,
  type SpsaTrial,
  spsaStep,
  spsaTrial,
  updateSpsa,
} from './statistics/spsa.ts';
export { type SpsaChart, type SpsaChartRow, spsaChart } from './statistics/spsa-chart.ts';
export { type Flip, flipsSignature, packFlips, unpackFlips } from './statistics/spsa-flips.ts';
export {
  gameDuration,
  sprtBatchSize,
  timeControlPattern,
  timeControlRatio,
} from './statistics/time-control.ts';
export { type RestOfRun, type RestOfSprt, remainingHours } from './statistics/waiting-time.ts';
export { actionRow, type LogEntry } from './storage/actions-log.ts';
export {
  ChangeWriter,
  type ChangeWriterOptions,
  type ChangeWriterStats,
} from './storage/change-writer.ts';
export type {
  ActionRow,
  BlockedWorkerRow,
  ContributorRow,
  FleetSchema,
  PgnRow,
  RunRow,
  TaskRow,
  UserRow,
} from './storage/fleet-schema.ts';
export { FleetStorage } from './storage/fleet-storage.ts';
export { fleetMigrations } from './storage/migrations.ts';
export { objectId } from './storage/object-id.ts';
export {
  badTaskRecord,
  runRecord,
  runRow,
  taskRecord,
  taskRow,
} from './storage/rows.ts';
export {
  type CheckedSource,
  type CheckSourceOptions,
  checkSource,
} from './submission/check-source.ts';
export { completeSubmission } from './submission/complete-submission.ts';
export { presets } from './submission/presets.ts';
export {
  readSubmission,
  type Submission,
  type SubmissionContext,
} from './submission/read-submission.ts';
export { submissionText } from './submission/submission-text.ts';
export { type ExportOptions, exportFleet } from './transfer/export-fleet.ts';
export { type Imported, type ImportOptions, importFleet } from './transfer/import-fleet.ts';
export { hashPassword, impossibleHash, matchesPassword } from './users/password.ts';
export { approversGroup, type User, userOf, userRow } from './users/user.ts';
export { type NewUser, type UserChange, Users, type UsersOptions } from './users/users.ts';
export { VerifiedPasswords, type Waiter } from './users/verified-passwords.ts';
