/** A component that is drawn again only when one of its properties is another one. */

import { Component, type ComponentType, h, type VNode } from "preact";

export function memo<P extends object>(Inner: (props: P) => VNode | null): ComponentType<P> {
  return class extends Component<P> {
    override shouldComponentUpdate(next: Readonly<P>): boolean {
      const names = Object.keys(next) as (keyof P)[];
      return names.some((name) => name !== ("children" as keyof P) && next[name] !== this.props[name]);
    }
    override render() {
      return h(Inner as ComponentType<P>, this.props as P);
    }
  } as unknown as ComponentType<P>;
}
