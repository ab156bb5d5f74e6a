package flow

// Has tells whether the flow has a node of a type.
func (g *Graph) Has(t Type) bool {
	for _, n := range g.nodes {
		if n.Type == t {
			return true
		}
	}
	return false
}
