/** A minute of calls in a line. */

const WIDTH = 96;
const HEIGHT = 22;

export function Spark({ values, label }: { values: number[]; label: string }) {
  const most = Math.max(...values, 0);
  if (values.length < 2 || most === 0) {
    return <svg class="spark" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} width={WIDTH} height={HEIGHT} role="img" aria-label={label}><path class="spark-flat" d={`M0 ${HEIGHT - 1.5}H${WIDTH}`} /></svg>;
  }
  const step = WIDTH / (values.length - 1);
  const points = values.map((value, at) => `${(at * step).toFixed(1)} ${(HEIGHT - 1.5 - (value / most) * (HEIGHT - 4)).toFixed(1)}`);
  return (
    <svg class="spark" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} width={WIDTH} height={HEIGHT} role="img" aria-label={label}>
      <path class="spark-area" d={`M0 ${HEIGHT}L${points.join("L")}L${WIDTH} ${HEIGHT}Z`} />
      <path class="spark-line" d={`M${points.join("L")}`} />
    </svg>
  );
}
