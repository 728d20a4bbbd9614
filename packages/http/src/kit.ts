// The parts that all pages of a service are made of: `import { framedPage } from
// 'spillway-http/kit'`. Each is a function of plain data that gives `html`.

export { kitAssets, kitStyle, kitUrls } from './page/kit/assets.ts';
export {
  type CellKind,
  cells,
  type GaugeOptions,
  gauge,
  type MeterOptions,
  meter,
  type SpanBarOptions,
  spanBar,
} from './page/kit/bars.ts';
export {
  type ChartBound,
  type ChartLine,
  type ChartTick,
  type LineChartOptions,
  legend,
  lineChart,
  type Point,
  type SparklineOptions,
  sparkline,
} from './page/kit/chart.ts';
export { type ErrorPageOptions, errorPage } from './page/kit/error-page.ts';
export {
  type ChoiceOptions,
  choice,
  type FieldOptions,
  field,
  type TickOptions,
  tick,
  wrongFields,
} from './page/kit/field.ts';
export {
  type CardOptions,
  card,
  type FramedPageOptions,
  framedPage,
  type PageHeadOptions,
  type PlaceLink,
  pageHead,
  type ServiceLink,
} from './page/kit/frame.ts';
export {
  ago,
  bytes,
  decimal,
  duration,
  type Figure,
  percent,
  signed,
  unknown,
} from './page/kit/numbers.ts';
export {
  type ButtonOptions,
  button,
  copyable,
  type DialogOptions,
  dialog,
  type EmptyOptions,
  empty,
  facts,
  group,
  hiddenFields,
  type NoticeOptions,
  notice,
  type Stat,
  type StateName,
  state,
  stats,
  type Tab,
  type Toast,
  tabs,
  tag,
  toasts,
} from './page/kit/parts.ts';
export {
  type Column,
  type PagerOptions,
  pager,
  type TableOptions,
  table,
} from './page/kit/table.ts';
